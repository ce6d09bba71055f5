"""Sides of estimated normals of real scans, koel's beside Open3D's, on the same points and the same cores.

The example `scan_normals` of koel-spatial reads the scan, measures koel and writes the points with the directions to the scanner;
Open3D then estimates normals of the same points. True normals are unknown: a normal is wrong if it faces away from the scanner."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import open3d as o3d

from normals import head_of, read_ply, write

STEEP = np.sin(np.radians(10))


def of_open3d(points, sights, orientation, scanner, args):
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    start, busy = time.perf_counter(), time.process_time()
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(args.neighbours))
    if orientation == "viewpoint":
        cloud.orient_normals_towards_camera_location(scanner)
    else:
        cloud.orient_normals_consistent_tangent_plane(args.tangent_k)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    cosines = np.einsum("ij,ij->i", np.asarray(cloud.normals), sights)
    # Without a viewpoint, one point decides the overall sign. It is mended where most normals face away, and noted.
    mended = orientation != "viewpoint" and float((cosines < 0).mean()) > 0.5
    cosines = -cosines if mended else cosines
    clear = np.abs(cosines) > STEEP
    return {
        "away_percent": round(100 * float((cosines < 0).mean()), 4),
        "away_clear_percent": round(100 * float((cosines[clear] < 0).mean()), 4),
        "steep_percent": round(100 * float((~clear).mean()), 3),
        "all_flipped": mended,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(busy, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--example", required=True, help="path of the built example scan_normals")
    parser.add_argument("--scan", nargs=2, action="append", required=True, metavar=("FILE", "X,Y,Z"), help="and its scanner")
    parser.add_argument("--neighbours", type=int, default=30, help="of Open3D's planes")
    parser.add_argument("--tangent-k", type=int, default=15, help="of Open3D's orientation")
    parser.add_argument("--out", required=True, help="record without extension: .jsonl and .txt are written")
    args = parser.parse_args()
    scans = " ".join(f"--scan {os.path.basename(file)} {scanner}" for file, scanner in args.scan)
    head = head_of(f"scan_normals.py --neighbours {args.neighbours} --tangent-k {args.tangent_k} {scans}")
    rows = []
    for file, scanner in args.scan:
        name = os.path.basename(file)
        with tempfile.TemporaryDirectory() as folder:
            cloud = os.path.join(folder, "cloud.ply")
            made = subprocess.run([args.example, file, scanner, "--write", cloud], capture_output=True, text=True)
            if made.returncode:
                sys.exit(made.stderr)
            values = read_ply(cloud)
        points, sights = values[:, :3], values[:, 3:]
        for line in made.stdout.splitlines():
            row = json.loads(line)
            rows.append({"scan": name, "program": "koel", **row})
            print(json.dumps(rows[-1]), flush=True)
            of = {key: row[key] for key in ("orientation", "scanner", "points")}
            found = of_open3d(points, sights, of["orientation"], row["scanner"], args)
            rows.append({"scan": name, "program": "open3d", **of, **found})
            print(json.dumps(rows[-1]), flush=True)
    write(args.out, head, rows, table(rows))


def table(rows):
    """A row for each scan, orientation and program: shares that face away, and seconds."""
    lines = [["scan", "points", "orientation", "program", "away, %", "clearly away, %", "steep, %", "s", "CPU s"]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        shares = [f"{row[key]:.2f}" for key in ("away_percent", "away_clear_percent", "steep_percent")]
        times = [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}"]
        lines.append([row["scan"], f"{row['points']:,}", row["orientation"], row["program"], *shares, *times])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    main()
