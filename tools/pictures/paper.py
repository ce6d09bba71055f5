"""Acceptance of the published method (`koel match --method paper`) on pairs with known truth.

    cargo build --release -p koel-cli
    python tools/pictures/paper.py data/opencv-photographs --first 11000 --absent 300 --present 60

takes pairs of the classes of `classes.py`, in turn, at half their size: that many in which the model
is absent and present. For corners, edges and a file of models: models found where they are absent,
where they are present, and of those the right ones; median and maximum of CPU-seconds. With
`--keep FOLDER`, pairs and answers stay there.
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import resource
import subprocess
import tempfile

import cv2
import numpy as np

import classes
import table

WAYS = {"corners": ["--features", "corners"], "edges": ["--features", "edges"], "database": []}
HALF = np.diag([0.5, 0.5, 1.0])


def halved(picture):
    return cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def pairs_of(args, folder):
    files = sorted(map(str, pathlib.Path(args.photographs).iterdir()))
    grey, colour = ([cv2.imread(f, how) for f in files] for how in (cv2.IMREAD_GRAYSCALE, cv2.IMREAD_COLOR))
    names, pairs = list(classes.CLASSES), []
    for present, count in ((False, args.absent), (True, args.present)):
        for k in range(count):
            of = names[k % len(names)]
            photographs = colour if of in classes.IN_COLOUR else grey
            model, scene, truth = classes.pair(of, photographs, present, args.first + k // len(names))
            name = f"{'present' if present else 'absent'}-{k}"
            for end, picture in (("m", model), ("s", scene)):
                cv2.imwrite(f"{folder}/{name}-{end}.png", halved(picture))
            h, w = model.shape[:2]
            truth = None if truth is None else HALF @ table.full(truth) @ np.linalg.inv(HALF)
            pairs.append((of, name, truth, (h // 2, w // 2)))
    return pairs


def search(program, folder, way, name, threads):
    base = [program, "--device", "cpu", "--threads", str(threads), "match", "--method", "paper", "--json", "-"]
    model, scene = (f"{folder}/{name}-{end}.png" for end in "ms")
    file = pathlib.Path(folder, f"{name}.models")
    commands = [[*base, *WAYS[way], model, scene]]
    if way == "database":
        commands = [[program, "models", "add", file, model], [*base, "--models", file, scene]]
    seconds, error = 0.0, None
    for command in commands:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run(command, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if out.returncode != 0:
            error = out.stderr.strip().splitlines()[-1]
            break
    file.unlink(missing_ok=True)
    matrix = None if error else json.loads(out.stdout).get("matrix")
    return {"way": way, "name": name, "matrix": matrix, "seconds": seconds, "error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs")
    parser.add_argument("--program", default="target/release/koel")
    parser.add_argument("--first", type=int, default=11000)
    parser.add_argument("--absent", type=int, default=300)
    parser.add_argument("--present", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER")
    args = parser.parse_args()
    if args.keep:
        pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
    place = contextlib.nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory()
    with place as folder, concurrent.futures.ProcessPoolExecutor(args.workers) as workers:
        pairs = pairs_of(args, folder)
        jobs = [(args.program, folder, way, p[1], args.threads) for way in WAYS for p in pairs]
        answers = list(workers.map(search, *zip(*jobs)))
        pathlib.Path(folder, "answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
    print("| points | absent | found | present | found | right | CPU-s median, max |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        of_way = {a["name"]: a for a in answers if a["way"] == way}
        found = [p for p in pairs if of_way[p[1]]["matrix"] is not None]
        there = [p for p in found if p[2] is not None]
        right = [p for p in there if table.right(p[0], of_way[p[1]]["matrix"], p[2], p[3])]
        seconds = [a["seconds"] for a in of_way.values()]
        print(f"| {way} | {args.absent} | {len(found) - len(there)} | {args.present} | {len(there)} | "
              f"{len(right)} | {np.median(seconds):.2f}, {max(seconds):.2f} |")
        for p in found:
            if p[2] is None:
                print(f"{way}: {p[0]} {p[1]} is absent and was found")
        for a in of_way.values():
            if a["error"]:
                print(f"{way}: {a['name']}: {a['error']}")


if __name__ == "__main__":
    main()
