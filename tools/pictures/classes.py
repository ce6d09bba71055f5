"""Pairs of pictures with known truth, by class: structured content that is easily confused.

Every class has pairs in which the model is present and pairs in which only something of its kind
is: another page, sign, word, shape, or photograph. The same seed gives the same pair.
"""
import math

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONTS = ["DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf",
         "DejaVuSerif-Bold.ttf", "DejaVuSansCondensed.ttf"]
WORDS = ("time year people way day man thing woman life child world school state family student "
         "group country problem hand part place case week company system program question work "
         "government number night point home water room mother area money story fact month lot "
         "right study book eye job word business issue side kind head house service friend father "
         "power hour game line end member law car city community name president team minute idea "
         "kid body information back parent face others level office door health person art war "
         "history party result change morning reason research girl guy moment air teacher force "
         "education foot boy age policy everything process music market sense nation plan college "
         "interest death experience effect class control care field development role effort rate "
         "heart drug show leader light voice wife police mind price report decision son view").split()
SIGNS = ["WELCOME", "STATION", "HARBOUR", "MUSEUM", "EXIT", "LIBRARY", "MARKET", "BAKERY", "HOTEL",
         "PARKING", "AIRPORT", "THEATRE", "GARDEN", "CINEMA", "PHARMACY", "TICKETS", "POLICE",
         "SCHOOL", "BRIDGE", "COFFEE"]
LIMITS = ["20", "30", "40", "50", "60", "70", "80", "90", "100", "110", "120", "130"]


def font(random, size, names=FONTS):
    return ImageFont.truetype(names[random.integers(len(names))], size)


def page(random, width, height, size=None, face=None):
    """A page of random words: dark on bright, ragged right."""
    size = size or int(random.integers(14, 22))
    face = face or FONTS[random.integers(len(FONTS))]
    picture = Image.new("L", (width, height), int(random.integers(225, 256)))
    draw, letters = ImageDraw.Draw(picture), ImageFont.truetype(face, size)
    y = 10
    while y < height - size:
        line = ""
        while True:
            word = WORDS[random.integers(len(WORDS))]
            if draw.textlength(line + word, font=letters) > width - 20:
                break
            line += word + (". " if random.random() < 0.1 else " ")
        draw.text((10, y), line, font=letters, fill=int(random.integers(10, 50)))
        y += int(1.4 * size)
    return np.array(picture)


def limit_sign(text, side):
    """A speed limit sign, with the mask of its disc."""
    n = 4 * side
    picture, mask = Image.new("L", (n, n), 255), Image.new("L", (n, n), 0)
    draw = ImageDraw.Draw(picture)
    draw.ellipse((0, 0, n - 1, n - 1), fill=90)
    draw.ellipse((0.13 * n, 0.13 * n, 0.87 * n, 0.87 * n), fill=250)
    ImageDraw.Draw(mask).ellipse((0, 0, n - 1, n - 1), fill=255)
    letters = ImageFont.truetype("DejaVuSans-Bold.ttf", int(n * (0.42 if len(text) < 3 else 0.3)))
    draw.text((n / 2, n / 2), text, font=letters, fill=15, anchor="mm")
    small = [np.array(p.resize((side, side), Image.LANCZOS)) for p in (picture, mask)]
    return small[0], small[1].astype(float) / 255


def word_sign(text, face, dark=20, bright=240):
    """A word on a plain plate."""
    letters = ImageFont.truetype(face, 56)
    left, top, right, bottom = letters.getbbox(text)
    picture = Image.new("L", (right - left + 40, bottom - top + 40), bright)
    ImageDraw.Draw(picture).text((20 - left, 20 - top), text, font=letters, fill=dark)
    return np.array(picture)


def polygon(sides, turn, inner=1.0):
    n = sides * (2 if inner < 1 else 1)
    radius = lambda k: inner if inner < 1 and k % 2 else 1.0
    return [(radius(k) * math.cos(turn + math.tau * k / n), radius(k) * math.sin(turn + math.tau * k / n))
            for k in range(n)]


def shape(random, kind, side=180):
    """A plain shape or a logo of two or three shapes on a plain background."""
    n = 4 * side
    dark, bright = int(random.integers(10, 90)), int(random.integers(180, 250))
    picture = Image.new("L", (n, n), bright)
    draw = ImageDraw.Draw(picture)

    def one(kind, x, y, r, fill):
        turn = random.uniform(0, math.tau)
        if kind == 0:
            draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)
        elif kind == 1:
            draw.ellipse((x - r, y - 0.55 * r, x + r, y + 0.55 * r), fill=fill)
        else:
            points = [polygon(3, turn), polygon(4, turn), polygon(5, turn), polygon(6, turn),
                      polygon(5, turn, 0.45), polygon(4, turn, 0.4), polygon(8, turn, 0.7)][kind - 2]
            draw.polygon([(x + r * px, y + r * py) for px, py in points], fill=fill)

    if kind < 9:
        one(kind, n / 2, n / 2, 0.42 * n, dark)
    else:
        kinds = random.permutation(9)[:3]
        one(kinds[0], n / 2, n / 2, 0.44 * n, dark)
        one(kinds[1], n / 2, n / 2, 0.28 * n, int(random.integers(120, 250)))
        one(kinds[2], n / 2, n / 2, 0.14 * n, int(random.integers(10, 90)))
    return np.array(picture.resize((side, side), Image.LANCZOS))


def photograph(random, photographs, width=640, height=480):
    image = photographs[random.integers(len(photographs))]
    scale = max(width / image.shape[1], height / image.shape[0])
    scale *= random.uniform(1, 1.3)
    image = cv2.resize(image, None, fx=scale, fy=scale,
                       interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    x = int(random.integers(image.shape[1] - width + 1))
    y = int(random.integers(image.shape[0] - height + 1))
    return image[y:y + height, x:x + width].copy()


def placement(random, model, scene, turn=math.pi, scales=(0.7, 1.4), tilt=1.0):
    """A map of the whole model into the scene."""
    h, w = model.shape
    for _ in range(200):
        angle, scale = random.uniform(-turn, turn), random.uniform(*scales)
        a = scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        if tilt > 1:
            t, d = random.uniform(1, tilt), random.uniform(0, math.pi)
            r = np.array([[math.cos(d), -math.sin(d)], [math.sin(d), math.cos(d)]])
            a = a @ r @ np.diag([1, 1 / t]) @ r.T
        corners = a @ np.array([[0, w - 1, w - 1, 0], [0, 0, h - 1, h - 1]])
        low, high = corners.min(1), corners.max(1)
        room = np.array([scene.shape[1] - 5, scene.shape[0] - 5]) - (high - low)
        if (room > 0).all():
            shift = 2 - low + random.uniform(0, 1, 2) * room
            return np.column_stack([a, shift])
    raise ValueError("the model does not fit")


def paste(scene, model, matrix, mask=None):
    """Puts the model into the scene; reduced with the mean of an area."""
    size = (scene.shape[1], scene.shape[0])
    scale = math.sqrt(abs(np.linalg.det(matrix[:, :2])))
    soft = model.astype(np.float32)
    if scale < 1:
        soft = cv2.GaussianBlur(soft, (0, 0), 0.5 * math.sqrt(1 / scale ** 2 - 1) + 1e-3)
    mask = np.ones(model.shape, np.float32) if mask is None else mask.astype(np.float32)
    warped = cv2.warpAffine(soft, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    part = cv2.warpAffine(mask, matrix, size, flags=cv2.INTER_LINEAR)
    return part * warped + (1 - part) * scene


def camera(random, picture):
    """What every camera adds: another exposure, a little blur and noise."""
    picture = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), random.uniform(0.3, 0.8))
    picture = random.uniform(0.8, 1.1) * picture + random.uniform(-10, 10) + random.normal(0, 3, picture.shape)
    return np.clip(np.round(picture), 0, 255).astype(np.uint8)


def text_pair(random, photographs, present):
    face, size = FONTS[random.integers(len(FONTS))], int(random.integers(15, 22))
    model, other = page(random, 320, 220, size, face), page(random, 320, 220, size, face)
    scene = photograph(random, photographs).astype(np.float32) if random.random() < 0.5 else \
        page(random, 640, 480, size, face).astype(np.float32)
    matrix = placement(random, model, scene, turn=0.5, scales=(0.8, 1.4))
    return model, camera(random, paste(scene, model if present else other, matrix)), matrix


def signs_pair(random, photographs, present):
    a, b = random.permutation(len(LIMITS))[:2]
    (model, mask), (other, _) = limit_sign(LIMITS[a], 160), limit_sign(LIMITS[b], 160)
    scene = photograph(random, photographs).astype(np.float32)
    matrix = placement(random, model, scene, turn=0.25)
    return model, camera(random, paste(scene, model if present else other, matrix, mask)), matrix


def words_pair(random, photographs, present):
    face = FONTS[random.integers(len(FONTS))]
    a, b = random.permutation(len(SIGNS))[:2]
    model, other = word_sign(SIGNS[a], face), word_sign(SIGNS[b], face)
    scene = photograph(random, photographs).astype(np.float32) if random.random() < 0.5 else \
        np.full((480, 640), random.uniform(150, 240), np.float32)
    matrix = placement(random, model if present else other, scene, turn=0.5, scales=(0.7, 1.3))
    return model, camera(random, paste(scene, model if present else other, matrix)), matrix


def shapes_pair(random, photographs, present):
    kinds = [int(random.integers(9)), 9][int(random.random() < 0.5)]
    model = shape(random, kinds)
    other = shape(random, (kinds + 1 + int(random.integers(8))) % 9 if kinds < 9 else 9)
    scene = photograph(random, photographs).astype(np.float32) if random.random() < 0.5 else \
        np.full((480, 640), random.uniform(150, 240), np.float32)
    matrix = placement(random, model, scene)
    return model, camera(random, paste(scene, model if present else other, matrix)), matrix


def word_photo_pair(random, photographs, present):
    face = FONTS[random.integers(len(FONTS))]
    model = word_sign(SIGNS[random.integers(len(SIGNS))], face)
    scene = photograph(random, photographs).astype(np.float32)
    matrix = placement(random, model, scene, turn=0.5, scales=(0.7, 1.3))
    if present:
        scene = paste(scene, model, matrix)
    return model, camera(random, scene), matrix


def photos_pair(random, photographs, present):
    first, second = random.permutation(len(photographs))[:2]
    model = photograph(random, [photographs[first]], 240, 180)
    scene = photograph(random, [photographs[second]]).astype(np.float32)
    matrix = placement(random, model, scene, tilt=1.4)
    if present:
        scene = paste(scene, model, matrix)
    return model, camera(random, scene), matrix


CLASSES = {
    "page of text": text_pair,
    "speed limit sign": signs_pair,
    "word among words": words_pair,
    "shape or logo": shapes_pair,
    "word in a photograph": word_photo_pair,
    "photograph": photos_pair,
}


def pair(name, photographs, present, seed):
    """Model, scene, and the true 2 x 3 matrix, or None if the model is absent."""
    number = list(CLASSES).index(name)
    random = np.random.default_rng([seed, number, int(present)])
    model, scene, matrix = CLASSES[name](random, photographs, present)
    return model, scene, matrix if present else None
