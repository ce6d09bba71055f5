"""The table of docs/vision.md: koel, SIFT and ORB with MAGSAC++ on pairs with known truth.

    cargo build --release -p koel-vision --example pictures
    python tools/pictures/table.py data/opencv-photographs --first 5000 --pairs 100

needs opencv-python-headless, pillow and numpy, and the fonts of DejaVu. For each class: hits of the
pairs in which the model is present, poses that are wrong there, and models found where they are
absent; and the median and maximum of CPU-seconds per pair, from pixels to verdict: user and system
time of the process that searches, which on a busy machine is only roughly that of an idle one.
With `--keep FOLDER`, pairs and answers stay in the folder, and the same command goes on where it
was interrupted.
"""
import argparse
import contextlib
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

# Poses of these are homographies, the others' affine maps.
TILTED = "drawing_tilted"


def full(matrix):
    return np.vstack([matrix, [0, 0, 1]]) if np.shape(matrix) == (2, 3) else np.asarray(matrix)


def apply(matrix, points):
    p = full(matrix) @ np.vstack([np.transpose(points), np.ones(len(points))])
    with np.errstate(all="ignore"):
        return (p[:2] / p[2]).T


def right(name, found, truth, size):
    """Whether a pose is right: by the corners, for shapes and boards (symmetric) by centre and area."""
    h, w = size
    corners = np.array([[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]], float)
    a, b = apply(found, corners), apply(truth, corners)
    if not np.isfinite(a).all():
        return False
    if np.linalg.norm(a - b, axis=1).mean() <= WITHIN.get(name, 5):
        return True
    area = lambda p: abs(cv2.contourArea(p.astype(np.float32)))
    return (name in ("shape or logo", "chessboard") and np.linalg.norm(a.mean(0) - b.mean(0)) <= 5
            and 0.85 < area(a) / max(area(b), 1) < 1.15)


def generate(folder, program, args):
    """Writes all pairs; returns (class, name, truth) for each."""
    photographs = sorted(map(str, pathlib.Path(args.photographs).iterdir()))
    pairs, wanted = [], [args.first, args.pairs, args.levels, args.classes, photographs, args.only]
    index = pathlib.Path(folder, "pairs.json")
    if index.exists():
        made = json.loads(index.read_text())
        if made["of"] != wanted:
            sys.exit(f"{index} has the pairs of {made['of']}, not of {wanted}")
        return made["pairs"]
    if args.levels:
        lines = subprocess.run([program, "write", folder, str(args.first), str(args.pairs),
                                *photographs], check=True, capture_output=True, text=True).stdout
        for line in map(json.loads, lines.splitlines()):
            pairs.append((line["name"].rsplit("-", 1)[0], line["name"], line["truth"]))
    grey = [cv2.imread(f, cv2.IMREAD_GRAYSCALE) for f in photographs]
    colour = [cv2.imread(f, cv2.IMREAD_COLOR) for f in photographs]
    chosen = args.only.split(",") if args.only else classes.CLASSES
    for name in chosen if args.classes else []:
        for present in (True, False):
            for seed in range(args.first, args.first + args.pairs):
                model, scene, truth = classes.pair(name, colour if name in classes.IN_COLOUR else grey, present, seed)
                base = f"{name.replace(' ', '_')}-{int(present)}-{seed}"
                cv2.imwrite(f"{folder}/{base}-m.png", model)
                cv2.imwrite(f"{folder}/{base}-s.png", scene)
                pairs.append((name, base, None if truth is None else truth.tolist()))
    index.write_text(json.dumps({"of": wanted, "pairs": pairs}))
    return pairs


def kept(folder, finder):
    """The answers that an earlier run left, and their file. An unfinished line is removed."""
    file = pathlib.Path(folder, f"{finder.replace(' ', '-')}.jsonl")
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    if lines and not lines[-1].endswith("\n"):
        file.write_text("".join(lines[:-1]))
        lines = lines[:-1]
    best = lambda a: a["homography"] if a["name"].startswith(TILTED) and a.get("homography") else a["matrix"]
    return {a["name"]: (best(a), a["seconds"]) for a in map(json.loads, lines)}, file


def koel(folder, program, how, names, file):
    with open(file, "a") as out:
        subprocess.run([program, "find", folder, *how], input="\n".join(names), check=True,
                       stdout=out, text=True)


def peer(folder, kind, names, file):
    cv2.setNumThreads(1)
    with open(file, "a") as out:
        for name in names:
            model, scene = (cv2.imread(f"{folder}/{name}-{end}.png", 0) for end in "ms")
            begin = time.process_time()
            found, inliers = peers.find_with_inliers(kind, model, scene)
            seconds = time.process_time() - begin
            answer = {"name": name, "seconds": seconds, "inliers": inliers,
                      "matrix": found.tolist() if inliers >= peers.INLIERS else None}
            print(json.dumps(answer), file=out, flush=True)


def answers_of(folder, program, finder, names):
    """Every answer of a finder as (matrix or None, CPU-seconds), in the order of the names."""
    known, file = kept(folder, finder)
    left = [name for name in names if name not in known]
    if left and finder.startswith("koel"):
        koel(folder, program, finder.split()[1:], left, file)
    elif left:
        peer(folder, finder, left, file)
    known, _ = kept(folder, finder)
    return [known[name] for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs")
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--program", default="target/release/examples/pictures")
    parser.add_argument("--finders", default="koel,SIFT,ORB")
    parser.add_argument("--levels", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--classes", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--only", metavar="CLASS,...", help="these classes only")
    parser.add_argument("--keep", metavar="FOLDER", help="keep pairs and answers there, and go on")
    parser.add_argument("--misses", action="store_true", help="list them on standard error")
    args = parser.parse_args()
    finders = args.finders.split(",")
    if args.keep:
        pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
    place = contextlib.nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory()
    with place as folder:
        pairs = generate(folder, args.program, args)
        names = [p[1] for p in pairs]
        sizes = [cv2.imread(f"{folder}/{n}-m.png", 0).shape for n in names]
        answers = {f: answers_of(folder, args.program, f, names) for f in finders}
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
            hits = sum(good for *_, good in there)
            cells.append(f"{hits} of {len(there)}, {len(wrong)}" if there else "-")
            cells.append(f"{len(false)} of {absent}" if absent else "-")
            cells.append(f"{np.median(seconds):.2f}, {max(seconds):.2f}")
        title = name.replace("___", " % ").replace("__", ", ").replace("_", " ")
        print(f"| {title} | {len(own)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
