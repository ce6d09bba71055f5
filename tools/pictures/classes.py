"""Pairs of pictures with known truth, by class: structured content that is easily confused.

Every class has pairs in which the model is present and pairs in which only something of its kind
is: another page, sign, word, shape, photograph, card, label, colour, chessboard or face. The same
seed gives the same pair. Pictures in colour are in the order of OpenCV: blue, green, red.
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
    h, w = model.shape[:2]
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
    mask = np.ones(model.shape[:2], np.float32) if mask is None else mask.astype(np.float32)
    return over(scene, soft, mask, lambda picture, **how: cv2.warpAffine(picture, matrix, size, **how))


def over(scene, model, mask, warp):
    warped = warp(model, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    part = warp(mask, flags=cv2.INTER_LINEAR)
    part = part[..., None] if scene.ndim == 3 else part
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


def in_light(random, picture):
    """A lamp or daylight that the camera corrects in part, and its own idea of saturation."""
    warm = random.uniform(-0.35, 0.35)
    linear = (np.clip(picture, 0, 255) / 255) ** 2.2 * np.exp([-1.6 * warm, 0, warm])
    grey = linear @ [0.0722, 0.7152, 0.2126]
    linear = grey[..., None] + random.uniform(0.7, 1.2) * (linear - grey[..., None])
    return 255 * np.clip(linear, 0, 1) ** (1 / 2.2)


def compressed(random, picture):
    """As a JPEG file, which keeps the colour of 2 x 2 pixels."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(random.integers(60, 95))]
    return cv2.imdecode(cv2.imencode(".jpg", picture, quality)[1], cv2.IMREAD_COLOR)


def drawn(size, background, draw):
    """A drawing in colour of a width and height, made by `draw(draw, scale)` at four times them."""
    picture = Image.new("RGB", (4 * size[0], 4 * size[1]), background)
    draw(ImageDraw.Draw(picture), 4)
    return np.array(picture.resize(size, Image.LANCZOS))[..., ::-1]


RANKS = ["A", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
SUITS = {"\u2660": (15, 15, 20), "\u2665": (200, 20, 30), "\u2666": (200, 20, 30), "\u2663": (15, 15, 20)}
ROWS = {1: (1,), 2: (1, 1), 3: (1, 1, 1), 4: (2, 2), 5: (2, 1, 2), 6: (2, 2, 2), 7: (2, 1, 2, 2),
        8: (2, 1, 2, 1, 2), 9: (2, 2, 1, 2, 2), 10: (2, 1, 2, 2, 1, 2)}


def card(rank, suit):
    """A playing card."""
    def draw(d, k):
        d.rounded_rectangle((0, 0, 200 * k - 1, 280 * k - 1), 14 * k, fill=(250, 250, 248),
                            outline=(120, 120, 120), width=k)
        index, pip = (ImageFont.truetype("DejaVuSans-Bold.ttf", n * k) for n in (30, 52))
        small = ImageFont.truetype("DejaVuSans.ttf", 28 * k)
        for x, y, anchor in [(22, 26, "mm"), (178, 254, "mm")]:
            d.text((x * k, y * k), RANKS[rank], font=index, fill=SUITS[suit], anchor=anchor)
            d.text((x * k, (y + (28 if y < 100 else -30)) * k), suit, font=small, fill=SUITS[suit], anchor=anchor)
        rows = ROWS[rank + 1]
        for j, n in enumerate(rows):
            y = 140 + (j - (len(rows) - 1) / 2) * 200 / max(len(rows), 4)
            for x in ([100] if n == 1 else [68, 132]):
                d.text((x * k, y * k), suit, font=pip, fill=SUITS[suit], anchor="mm")
    return drawn((200, 280), (250, 250, 248), draw)


FLAVOURS = ["Cherry", "Apple", "Lemon", "Orange", "Grape", "Peach", "Mango", "Plum", "Lime", "Berry"]
BRANDS = ["ALPENHOF", "NORDKAP", "SOLARA", "FRESCO", "MONTANA", "RIVERA"]


def hue(degrees, saturation=0.8, value=0.75):
    c = cv2.cvtColor(np.float32([[[degrees % 360, saturation, value]]]), cv2.COLOR_HSV2RGB)[0, 0]
    return tuple(int(255 * v) for v in c)


def label(brand, band, flavour, colour):
    """The label of a product: brand, a disc in the colour of its flavour, two lines."""
    def draw(d, k):
        d.rectangle((0, 0, 220 * k, 90 * k), fill=band)
        font = lambda n: ImageFont.truetype("DejaVuSans-Bold.ttf", n * k)
        d.text((110 * k, 48 * k), brand, font=font(32), fill=(255, 255, 255), anchor="mm")
        d.ellipse((64 * k, 114 * k, 156 * k, 206 * k), fill=colour)
        d.text((20 * k, 236 * k), flavour, font=font(26), fill=(15, 15, 15), anchor="lm")
        d.text((20 * k, 278 * k), "500 ml", font=font(18), fill=(70, 70, 70), anchor="lm")
    return drawn((220, 300), (250, 250, 250), draw)


ACTIONS = ["GO", "Send", "Buy now", "Cancel", "OK", "Save", "Start", "Delete", "Next", "Log in"]


def button(text, fill, face, letters=(255, 255, 255)):
    """A button of a user interface."""
    def draw(d, k):
        d.rounded_rectangle((4 * k, 4 * k, 196 * k, 86 * k), 10 * k, fill=fill)
        d.text((100 * k, 45 * k), text, font=ImageFont.truetype(face, 30 * k), fill=letters, anchor="mm")
    return drawn((200, 90), (238, 238, 238), draw)


def rendered(text, fill, face, scale):
    """A small button as a user interface renders it at a scale: no picture of it is enlarged."""
    letters = ImageFont.truetype(face, round(13 * scale))
    width = round((draw_length(text, face) + 28) * scale)
    picture = Image.new("RGB", (width, round(32 * scale)), (238, 238, 238))
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle((0, 0, width - 1, round(32 * scale) - 1), round(5 * scale), fill=fill)
    draw.text((width / 2, 16 * scale), text, font=letters, fill=(255, 255, 255), anchor="mm")
    return np.array(picture)[..., ::-1]


def draw_length(text, face):
    return ImageFont.truetype(face, 13).getlength(text)


def as_bright(colour, other):
    """The first colour with the luminance of the other, as far as there is one."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    ratio = (weights @ np.array(other)) / max(weights @ np.array(colour), 1)
    return tuple(int(min(255, ratio * v)) for v in colour)


def chessboard(columns, rows, margin, dark, bright):
    side = 220 // max(columns, rows)
    board = np.full((rows * side + 2 * margin, columns * side + 2 * margin), bright, np.uint8)
    for j in range(rows):
        for i in range(columns):
            if (i + j) % 2 == 0:
                board[margin + j * side:margin + (j + 1) * side, margin + i * side:margin + (i + 1) * side] = dark
    return board


def face(random):
    """A drawn face: head, hair, eyes, brows, nose and mouth of random sizes."""
    u = random.uniform
    skin = (int(u(170, 250)), int(u(130, 200)), int(u(100, 170)))
    hair, eye = [tuple(int(v) for v in random.integers(20, 130, 3)) for _ in range(2)]
    w, h, top, gap, eye_y = u(60, 76), u(78, 95), u(0.35, 0.7), u(22, 32), u(-22, -8)
    eye_r, brow, nose, mouth_y, mouth_w, smile = u(6, 11), u(14, 22), u(16, 30), u(34, 50), u(18, 36), u(-10, 16)
    background = tuple(int(v) for v in random.integers(120, 240, 3))

    def draw(d, k):
        def at(x, y):
            return ((110 + x) * k, (125 + y) * k)
        d.ellipse((*at(-w - 10, -h - 14), *at(w + 10, h * 0.5)), fill=hair)
        d.ellipse((*at(-w, -h * (1 - 0.2 * top)), *at(w, h)), fill=skin)
        for side in (-1, 1):
            x = side * gap
            d.ellipse((*at(x - 1.5 * eye_r, eye_y - eye_r), *at(x + 1.5 * eye_r, eye_y + eye_r)), fill=(250, 250, 250))
            d.ellipse((*at(x - 0.8 * eye_r, eye_y - 0.8 * eye_r), *at(x + 0.8 * eye_r, eye_y + 0.8 * eye_r)), fill=eye)
            d.line((*at(x - 15, eye_y - brow), *at(x + 15, eye_y - brow - 0.2 * side * smile)), fill=hair, width=5 * k)
        d.line((*at(0, eye_y), *at(-6, eye_y + nose), *at(4, eye_y + nose)), fill=(110, 70, 60), width=3 * k)
        d.arc((*at(-mouth_w, mouth_y - abs(smile)), *at(mouth_w, mouth_y + abs(smile))),
              0 if smile > 0 else 180, 180 if smile > 0 else 360, fill=(150, 40, 50), width=5 * k)
    return drawn((220, 250), background, draw)


def code(random, side=200):
    """A square code such as QR: modules, and finders at three corners."""
    n = 25
    modules = random.random((n, n)) < 0.5
    for y, x in ((0, 0), (0, n - 7), (n - 7, 0)):
        modules[max(0, y - 1):y + 8, max(0, x - 1):x + 8] = False
        modules[y:y + 7, x:x + 7] = True
        modules[y + 1:y + 6, x + 1:x + 6] = False
        modules[y + 2:y + 5, x + 2:x + 5] = True
    k = side // (n + 8)
    picture = np.full((k * (n + 8),) * 2, 255, np.uint8)
    picture[4 * k:-4 * k, 4 * k:-4 * k] = np.where(np.kron(modules, np.ones((k, k))) > 0, 0, 255)
    return picture


def tilted(random, model, scene, degrees, focal):
    """A homography that shows the model tilted about a random axis by a camera near by."""
    h, w = model.shape[:2]
    for _ in range(200):
        axis, turn, scale = random.uniform(0, math.tau), random.uniform(-0.4, 0.4), random.uniform(0.9, 1.6)
        axis = np.array([math.cos(axis), math.sin(axis), 0])
        rotation = cv2.Rodrigues(math.radians(degrees) * axis)[0] @ cv2.Rodrigues(np.array([0, 0, turn]))[0]
        centre = np.array([random.uniform(0.3, 0.7) * scene.shape[1], random.uniform(0.3, 0.7) * scene.shape[0]])
        to_plane = np.array([[1, 0, -w / 2], [0, 1, -h / 2], [0, 0, 1]])
        view = np.column_stack([rotation[:, 0], rotation[:, 1], [0, 0, focal / scale]])
        camera = np.array([[focal, 0, centre[0]], [0, focal, centre[1]], [0, 0, 1]])
        matrix = camera @ view @ to_plane
        p = matrix @ np.array([[0, w, w, 0], [0, 0, h, h], [1, 1, 1, 1]])
        p = p[:2] / p[2]
        if (p > 3).all() and (p[0] < scene.shape[1] - 3).all() and (p[1] < scene.shape[0] - 3).all():
            return matrix / matrix[2, 2]
    raise ValueError("the model does not fit")


def paste_tilted(scene, model, matrix):
    size = (scene.shape[1], scene.shape[0])
    mask = np.ones(model.shape[:2], np.float32)
    return over(scene, model.astype(np.float32), mask,
                lambda picture, **how: cv2.warpPerspective(picture, matrix, size, **how))


def colour_pair(random, photographs, model, other, present, turn=0.4):
    """A pair in colour, in another light than the model."""
    scene = photograph(random, photographs).astype(np.float32)
    matrix = placement(random, model, scene, turn=turn, scales=(0.8, 1.3))
    scene = in_light(random, paste(scene, model if present else other, matrix))
    return model, compressed(random, camera(random, scene)), matrix


def cards_pair(random, photographs, present):
    rank, other = (int(v) for v in random.permutation(10)[:2])
    a, b = random.permutation(list(SUITS))[:2]
    kind = random.integers(3)
    other = card(rank if kind == 0 else other, a if kind == 1 else b)
    return colour_pair(random, photographs, card(rank, a), other, present)


def labels_pair(random, photographs, present):
    brand, band = BRANDS[random.integers(len(BRANDS))], hue(random.uniform(0, 360), value=0.4)
    a, b = random.permutation(len(FLAVOURS))[:2]
    first = random.uniform(0, 360)
    model = label(brand, band, FLAVOURS[a], hue(first))
    other = label(brand, band, FLAVOURS[b], hue(first + random.uniform(60, 300)))
    return colour_pair(random, photographs, model, other, present)


def colours_pair(random, photographs, present):
    text, face_name = ACTIONS[random.integers(len(ACTIONS))], FONTS[random.integers(len(FONTS))]
    first = random.uniform(0, 360)
    own = hue(first, 0.85, 0.6)
    other = as_bright(hue(first + random.uniform(70, 290), 0.85, 0.6), own)
    if random.random() < 0.3:
        other = (190, 190, 190)
    letters = (255, 255, 255) if other != (190, 190, 190) else (220, 220, 220)
    model, other = button(text, own, face_name), button(text, other, face_name, letters)
    if random.random() < 0.5:
        return colour_pair(random, photographs, model, other, present, turn=0.2)
    scene = np.full((480, 640, 3), random.uniform(225, 255), np.float32)
    for k in range(8):
        row = button(f"Row {k}", hue(random.uniform(0, 360)), face_name)
        scene = paste(scene, row, np.array([[0.4, 0, 20], [0, 0.4, 20 + 55 * k]]))
    matrix = placement(random, model, scene[:, 150:], turn=0.0, scales=(0.9, 1.2))
    matrix[0, 2] += 150
    scene = paste(scene, model if present else other, matrix)
    return model, np.clip(np.round(scene), 0, 255).astype(np.uint8), matrix


def rendered_pair(random, photographs, present):
    """The same button on a screen of another density, in a list of others."""
    face_name, fill = FONTS[random.integers(len(FONTS))], hue(random.uniform(0, 360), 0.85, 0.6)
    order = random.permutation(len(ACTIONS))
    scale = (1.25, 1.5)[random.integers(2)]
    model = rendered(ACTIONS[order[0]], fill, face_name, 1)
    scene, matrix = np.full((600, 800, 3), int(random.integers(225, 256)), np.uint8), None
    for k, n in enumerate(order[0 if present else 1:6]):
        shown = rendered(ACTIONS[n], fill, face_name, scale)
        x, y = int(random.integers(20, 600)), 20 + 90 * k
        scene[y:y + shown.shape[0], x:x + shown.shape[1]] = shown
        if k == 0:
            ratio = [a / b for a, b in zip(shown.shape[1::-1], model.shape[1::-1])]
            shift = [ratio[0] / 2 - 0.5 + x, ratio[1] / 2 - 0.5 + y]
            matrix = np.array([[ratio[0], 0, shift[0]], [0, ratio[1], shift[1]]])
    return model, scene, matrix


def chessboards_pair(random, photographs, present):
    a, b = int(random.integers(5, 10)), int(random.integers(5, 10))
    dark, bright = int(random.integers(10, 90)), int(random.integers(180, 250))
    model = chessboard(a, b, int(random.integers(6, 30)), dark, bright)
    while True:
        c, d = int(random.integers(5, 11)), int(random.integers(5, 11))
        if (c, d) not in ((a, b), (b, a)):
            break
    other = chessboard(c, d, int(random.integers(6, 30)), dark, bright)
    scene = photograph(random, photographs).astype(np.float32)
    matrix = placement(random, model if present else other, scene, turn=0.5, scales=(0.7, 1.3))
    return model, camera(random, paste(scene, model if present else other, matrix)), matrix


def faces_pair(random, photographs, present):
    return colour_pair(random, photographs, face(random), face(random), present)


def tilted_pair(random, photographs, present):
    kind = random.integers(3)
    if kind == 0:
        model, other = code(random), code(random)
    elif kind == 1:
        face_name = FONTS[random.integers(len(FONTS))]
        a, b = random.permutation(len(SIGNS))[:2]
        model, other = word_sign(SIGNS[a], face_name), word_sign(SIGNS[b], face_name)
    else:
        (r, s), suits = random.permutation(10)[:2], random.permutation(list(SUITS))[:2]
        model, other = (cv2.cvtColor(card(int(n), suit), cv2.COLOR_BGR2GRAY) for n, suit in zip((r, s), suits))
    scene = photograph(random, photographs).astype(np.float32)
    matrix = tilted(random, model if present else other, scene, 30, 700)
    return model, camera(random, paste_tilted(scene, model if present else other, matrix)), matrix


CLASSES = {
    "page of text": text_pair,
    "speed limit sign": signs_pair,
    "word among words": words_pair,
    "shape or logo": shapes_pair,
    "word in a photograph": word_photo_pair,
    "photograph": photos_pair,
    "playing card": cards_pair,
    "label": labels_pair,
    "button in another colour": colours_pair,
    "button rendered at 1.25 or 1.5": rendered_pair,
    "chessboard": chessboards_pair,
    "drawn face": faces_pair,
    "drawing tilted by 30 degrees": tilted_pair,
}
IN_COLOUR = ("playing card", "label", "button in another colour", "drawn face",
             "button rendered at 1.25 or 1.5")


def pair(name, photographs, present, seed):
    """Model, scene, and the true matrix (2 x 3, tilted 3 x 3), or None if the model is absent."""
    number = list(CLASSES).index(name)
    random = np.random.default_rng([seed, number, int(present)])
    model, scene, matrix = CLASSES[name](random, photographs, present)
    return model, scene, matrix if present else None
