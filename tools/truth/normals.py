"""Errors of estimated normals, koel's beside Open3D's, on the same clouds and the same cores.

The example `normal_errors` of koel-spatial makes the clouds, measures koel and writes the clouds with their true normals; Open3D then
estimates normals of the same points. A normal is flipped if it makes more than 90 degrees with the true one; angles ignore the sign."""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np
import open3d as o3d


def read_ply(path):
    with open(path, "rb") as file:
        while file.readline().strip() != b"end_header":
            pass
        return np.frombuffer(file.read(), dtype="<f4").reshape(-1, 6).astype(np.float64)


def of_open3d(path, neighbours, tangent_k):
    values = read_ply(path)
    points, truth = values[:, :3], values[:, 3:]
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    start, busy = time.perf_counter(), time.process_time()
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(neighbours))
    cloud.orient_normals_consistent_tangent_plane(tangent_k)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    known = np.any(truth != 0, axis=1)
    cosines = np.einsum("ij,ij->i", np.asarray(cloud.normals)[known], truth[known])
    # Open3D chooses the overall sign by one point; koel's has to be right. Open3D's is mended here where most normals disagree.
    mended = cosines.mean() < 0
    cosines = -cosines if mended else cosines
    return {
        "flipped_percent": round(100 * float((cosines < 0).mean()), 4),
        "all_flipped": bool(mended),
        "angle_degrees": round(float(np.degrees(np.arccos(np.clip(np.abs(cosines), 0, 1))).mean()), 3),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(busy, 2),
    }


def head_of(command):
    """The first line of a record."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit,
        "command": command,
        "driver": None,
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "open3d": o3d.__version__,
    }


def write(out, head, rows, text):
    with open(out + ".jsonl", "w") as file:
        file.write("".join(json.dumps(row) + "\n" for row in [head, *rows]))
    with open(out + ".txt", "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--example", required=True, help="path of the built example normal_errors")
    parser.add_argument("--meshes", nargs="*", default=[], help="closed meshes, in place of the shapes: bunny.obj dragon.obj")
    parser.add_argument("--points", type=int, default=160_000)
    parser.add_argument("--neighbours", type=int, nargs="*", default=[30], help="of Open3D's planes; none: only koel")
    parser.add_argument("--tangent-k", type=int, default=15, help="of Open3D's orientation")
    parser.add_argument("--only", default="", help="part of the names of scenes")
    parser.add_argument("--append", action="store_true", help="keep the rows that --out has")
    parser.add_argument("--out", required=True, help="record without extension: .jsonl and .txt are written")
    args = parser.parse_args()
    command = f"normals.py --points {args.points} --neighbours {' '.join(map(str, args.neighbours))} --tangent-k {args.tangent_k}"
    head = head_of(f"{command}, without and with --meshes bunny.obj dragon.obj")
    rows = []
    if args.append:
        with open(args.out + ".jsonl") as file:
            head, *rows = map(json.loads, file)
    with tempfile.TemporaryDirectory() as folder:
        run = [args.example, str(args.points), "--write", folder, "--only", args.only, *args.meshes]
        made = subprocess.run(run, capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stderr)
        for line in made.stdout.splitlines():
            row = json.loads(line)
            file = os.path.join(folder, row.pop("file"))
            row = {"program": "koel", **row}
            rows.append(row)
            print(json.dumps(row), flush=True)
            for neighbours in args.neighbours:
                scene = {key: row[key] for key in ("scene", "noise_percent", "points")}
                found = of_open3d(file, neighbours, args.tangent_k)
                rows.append({"program": f"open3d, {neighbours} neighbours", **scene, **found})
                print(json.dumps(rows[-1]), flush=True)
    write(args.out, head, rows, table(rows))


def table(rows):
    """A row for each cloud: flipped normals in percent, mean angle in degrees, and CPU seconds of each program that ran; koel's volume error."""
    programs = list(dict.fromkeys(row["program"] for row in rows))
    heads = ["scene", "noise, %"] + [f"{p}: flipped, angle, CPU s" for p in programs] + ["koel: volume off, %"]
    lines = [heads, ["---"] * len(heads)]
    for scene in dict.fromkeys((row["scene"], row["noise_percent"]) for row in rows):
        of = {row["program"]: row for row in rows if (row["scene"], row["noise_percent"]) == scene}
        cell = "{flipped_percent:.2f}, {angle_degrees:.1f}, {cpu_seconds:.1f}"
        figures = [cell.format(**of[p]) if p in of else "" for p in programs]
        lines.append([scene[0], f"{scene[1]:g}", *figures, f"{of['koel']['volume_off_percent']:.2f}"])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    main()
