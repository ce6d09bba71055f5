"""The table of docs/vision.md: koel, SIFT and ORB with MAGSAC++ on pairs with known truth.

    cargo build --release -p koel-vision --example pictures
    python tools/pictures/table.py data/opencv-photographs --first 5000 --pairs 100

needs opencv-python-headless, pillow and numpy, and the fonts of DejaVu. For each class: hits of the
pairs in which the model is present, poses that are wrong there, and models found where they are
absent; and the median and maximum of CPU-seconds per pair, from pixels to verdict.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np

import classes
import peers

WITHIN = {"clean": 3, "noise": 3, "30___occluded": 3, "50___occluded": 4, "displaced_3_px": 6,
          "displaced_5_px": 8, "shear__aspect": 4, "clutter": 4}


def full(matrix):
    return np.vstack([matrix, [0, 0, 1]]) if np.shape(matrix) == (2, 3) else np.asarray(matrix)


def apply(matrix, points):
    p = full(matrix) @ np.vstack([np.transpose(points), np.ones(len(points))])
    with np.errstate(all="ignore"):
        return (p[:2] / p[2]).T


def right(name, found, truth, size):
    """Whether a pose is right: by the corners, for shapes (symmetric) by centre and area."""
    h, w = size
    corners = np.array([[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]], float)
    a, b = apply(found, corners), apply(truth, corners)
    if not np.isfinite(a).all():
        return False
    if np.linalg.norm(a - b, axis=1).mean() <= WITHIN.get(name, 5):
        return True
    area = lambda p: abs(cv2.contourArea(p.astype(np.float32)))
    return (name == "shape or logo" and np.linalg.norm(a.mean(0) - b.mean(0)) <= 5
            and 0.85 < area(a) / max(area(b), 1) < 1.15)


def generate(folder, program, args):
    """Writes all pairs; returns (class, name, truth) for each."""
    photographs = sorted(map(str, pathlib.Path(args.photographs).iterdir()))
    pairs = []
    if args.levels:
        lines = subprocess.run([program, "write", folder, str(args.first), str(args.pairs),
                                *photographs], check=True, capture_output=True, text=True).stdout
        for line in map(json.loads, lines.splitlines()):
            pairs.append((line["name"].rsplit("-", 1)[0], line["name"], line["truth"]))
    grey = [cv2.imread(f, cv2.IMREAD_GRAYSCALE) for f in photographs]
    for name in classes.CLASSES:
        for present in (True, False):
            for seed in range(args.first, args.first + args.pairs):
                model, scene, truth = classes.pair(name, grey, present, seed)
                base = f"{name.replace(' ', '_')}-{int(present)}-{seed}"
                cv2.imwrite(f"{folder}/{base}-m.png", model)
                cv2.imwrite(f"{folder}/{base}-s.png", scene)
                pairs.append((name, base, None if truth is None else truth.tolist()))
    return pairs


def koel(folder, program, names, how):
    out = subprocess.run([program, "find", folder, *how], input="\n".join(names), check=True,
                         capture_output=True, text=True).stdout
    lines = list(map(json.loads, out.splitlines()))
    return [(line["matrix"], line["seconds"]) for line in lines]


def peer(folder, kind, names):
    cv2.setNumThreads(1)
    answers = []
    for name in names:
        model, scene = (cv2.imread(f"{folder}/{name}-{end}.png", 0) for end in "ms")
        begin = time.process_time()
        found = peers.find(kind, model, scene)
        answers.append((found, time.process_time() - begin))
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs")
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--program", default="target/release/examples/pictures")
    parser.add_argument("--finders", default="koel,SIFT,ORB")
    parser.add_argument("--levels", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--misses", action="store_true", help="list them on standard error")
    args = parser.parse_args()
    finders = args.finders.split(",")
    with tempfile.TemporaryDirectory() as folder:
        pairs = generate(folder, args.program, args)
        names = [p[1] for p in pairs]
        sizes = [cv2.imread(f"{folder}/{n}-m.png", 0).shape for n in names]
        answers = {f: koel(folder, args.program, names, f.split()[1:]) if f.startswith("koel")
                   else peer(folder, f, names) for f in finders}
    print("| class | pairs | " + " | ".join(
        f"{f}: hits, wrong poses | false positives | CPU-s median, max" for f in finders) + " |")
    print("|---|---|" + "---|---|---|" * len(finders))
    for name in dict.fromkeys(p[0] for p in pairs):
        cells = []
        for f in finders:
            own = [(p, s, a) for p, s, a in zip(pairs, sizes, answers[f]) if p[0] == name]
            there = [(p, a[0], a[0] is not None and right(name, a[0], p[2], s))
                     for p, s, a in own if p[2] is not None]
            false = [p[1] for p, _, a in own if p[2] is None and a[0] is not None]
            wrong = [p[1] for p, m, good in there if m is not None and not good]
            if args.misses:
                missed = [p[1] for p, m, good in there if m is None]
                print(f, name, "missed", missed, "wrong", wrong, "false", false, file=sys.stderr)
            seconds = [a[1] for _, _, a in own]
            absent = len(own) - len(there)
            cells.append(f"{sum(g for *_, g in there)} of {len(there)}, {len(wrong)}" if there else "-")
            cells.append(f"{len(false)} of {absent}" if absent else "-")
            cells.append(f"{np.median(seconds):.2f}, {max(seconds):.2f}")
        print(f"| {name.replace('_', ' ')} | {len(own)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
