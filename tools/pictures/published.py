"""Published pairs of docs/vision.md: a box, graffiti and frames of a video, with CPU-seconds.

    cargo build --release -p koel-vision --example pictures
    cargo xtask data opencv opencv-samples
    python tools/pictures/published.py data

The truth of graffiti is published. That of the box and of the frames is the homography of SIFT and
MAGSAC++ with at least 15 inliers: for frames from the reference photograph or, where that is not
enough, from the nearest frame whose truth is known; else a pair has no truth. "Best" is the affine
map closest to the truth over the model, "allowed" 1.6 times its error plus 4 pixels. Errors are the
mean distances of the four corners. CPU-seconds are user and system time of the process that
searches, from pixels to verdict, with two threads and with one (`taskset`): the least of the runs.
"""
import argparse
import json
import subprocess
import sys
import tempfile

import cv2
import numpy as np

import peers
import table

PARTS = [(0, 0, 800, 640), (60, 60, 260, 200), (330, 120, 260, 200), (120, 330, 260, 200),
         (420, 330, 260, 200), (250, 200, 300, 240)]
FRAMES = sorted({160, 170, 290, 310, *range(19, 455, 38)})
TOP = (300, 230)
# Corners of the box's top in the reference photograph, clockwise from the picture's top left.
CORNERS = [(317, 83), (549, 205), (341, 321), (118, 175)]
CORNERS_OF_TOP = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * np.array([TOP[0] - 1, TOP[1] - 1.0])
LEAST_INLIERS, LEAST_AREA = 15, 5000


def grey(path):
    picture = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
    if picture is None:
        sys.exit(f"{path} cannot be read as an image")
    return picture


def by_sift(model, scene):
    found, inliers = peers.find_with_inliers("SIFT", model, scene)
    return found if inliers >= LEAST_INLIERS else None


def of_the_top(picture, place, scene):
    """The map of the top from a picture in which its place is known to a scene, or None."""
    mask = cv2.warpPerspective(np.full(TOP[::-1], 255, np.uint8), place, picture.shape[::-1])
    step = by_sift(np.where(mask > 0, picture, 128).astype(np.uint8), scene)
    if step is None:
        return None
    corners = table.apply(step @ place, CORNERS_OF_TOP).astype(np.float32)
    sound = cv2.isContourConvex(corners) and cv2.contourArea(corners) > LEAST_AREA
    return step @ place if sound else None


def truths_of(photograph, place, frames):
    """The place of the top in the frames: by the photograph, else by the nearest known frame."""
    found = {n: of_the_top(photograph, place, frame) for n, frame in frames.items()}
    known = {n: truth for n, truth in found.items() if truth is not None}
    left = set(frames) - set(known)
    while left:
        number = min(left, key=lambda n: min(abs(n - k) for k in known))
        nearest = min(known, key=lambda k: abs(k - number))
        truth = of_the_top(frames[nearest], known[nearest], frames[number])
        if truth is None:
            break
        known[number] = truth
        left.remove(number)
    return known


def frames_of(video):
    reader = cv2.VideoCapture(video)
    frames = {}
    for number in range(max(FRAMES) + 1):
        read, frame = reader.read()
        if not read:
            sys.exit(f"{video} ends before frame {number}")
        if number in FRAMES:
            frames[number] = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    return frames


def pairs_of(data):
    """Name, model, scene and true homography (or None) of every pair."""
    box, scene = grey(f"{data}/opencv/box.png"), grey(f"{data}/opencv/box_in_scene.png")
    yield "box.png in box_in_scene.png", box, scene, by_sift(box, scene)
    wall, other = grey(f"{data}/opencv/graf1.png"), grey(f"{data}/opencv/graf3.png")
    storage = cv2.FileStorage(f"{data}/opencv/H1to3p.xml", cv2.FILE_STORAGE_READ)
    published = storage.getNode("H13").mat()
    for x, y, w, h in PARTS:
        name = "graf1" if (w, h) == wall.shape[::-1] else f"graf1, {w} x {h} at ({x}, {y})"
        shift = np.array([[1, 0, x], [0, 1, y], [0, 0, 1.0]])
        yield f"{name}, in graf3", wall[y:y + h, x:x + w], other, published @ shift
    photograph = grey(f"{data}/opencv-samples/resized_IMG_3875.JPG")
    rectify = cv2.getPerspectiveTransform(np.float32(CORNERS), CORNERS_OF_TOP.astype(np.float32))
    top = cv2.warpPerspective(photograph, rectify, TOP, flags=cv2.INTER_AREA)
    frames = frames_of(f"{data}/opencv/box.mp4")
    truths = truths_of(photograph, np.linalg.inv(rectify), frames)
    for number, frame in frames.items():
        yield f"top of the box, in frame {number} of box.mp4", top, frame, truths.get(number)


def best_affine(truth, width, height):
    x, y = np.meshgrid(np.linspace(0, width - 1, 21), np.linspace(0, height - 1, 21))
    points = np.column_stack([x.ravel(), y.ravel()])
    map, *_ = np.linalg.lstsq(np.column_stack([points, np.ones(len(points))]),
                              table.apply(truth, points), rcond=None)
    return map.T


def off(map, truth, width, height):
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], float)
    return np.linalg.norm(table.apply(map, corners) - table.apply(truth, corners), axis=1).mean()


def search(program, folder, names, cores, runs):
    """Answer and least CPU-seconds of every pair."""
    lines = []
    for _ in range(runs):
        out = subprocess.run(["taskset", "-c", cores, program, "find", folder], check=True,
                             text=True, input="\n".join(names), stdout=subprocess.PIPE).stdout
        lines.append(list(map(json.loads, out.splitlines())))
    return [(run[0], min(r["seconds"] for r in run)) for run in zip(*lines)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder with opencv and opencv-samples")
    parser.add_argument("--program", default="target/release/examples/pictures")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(pairs_of(args.data))
        for number, (_, model, scene, _) in enumerate(pairs):
            cv2.imwrite(f"{folder}/{number}-m.png", model)
            cv2.imwrite(f"{folder}/{number}-s.png", scene)
        names = list(map(str, range(len(pairs))))
        two = search(args.program, folder, names, "0,1", args.runs)
        one = search(args.program, folder, names, "0", args.runs)
    print("| model and scene | best affine, px | allowed | found at | CPU-s: two threads, one |")
    print("|---|---|---|---|---|")
    right = 0
    for (name, model, _, truth), (answer, seconds), (again, alone) in zip(pairs, two, one):
        if answer["matrix"] != again["matrix"]:
            sys.exit(f"{name}: {answer['matrix']} with two threads, {again['matrix']} with one")
        h, w = model.shape
        best, allowed, at = "-", "-", f"not found: {answer['doubt']}"
        if truth is not None:
            error = off(best_affine(truth, w, h), truth, w, h)
            best, allowed = f"{error:.1f}", f"{1.6 * error + 4:.1f}"
            if answer["matrix"] is not None:
                error = off(answer["matrix"], truth, w, h)
                at = f"{error:.1f}"
                right += error <= float(allowed)
        elif answer["matrix"] is not None:
            at = "found, truth unknown"
        print(f"| {name} | {best} | {allowed} | {at} | {seconds:.2f}, {alone:.2f} |")
    known = sum(truth is not None for *_, truth in pairs)
    print(f"\n{right} of {known} pairs with truth found within what is allowed. CPU-seconds, "
          + "; ".join(f"{name}: median {np.median(s):.2f}, most {max(s):.2f}" for name, s in
                      [("two threads", [s for _, s in two]), ("one thread", [s for _, s in one])]))


if __name__ == "__main__":
    main()
