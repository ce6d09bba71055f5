"""Errors of `koel intersect` on the bunny and the dragon, against volumes and areas of manifold3d's Booleans and signed distances by libigl.

Both meshes are brought to the same size, turned at random and moved against each other; points spread evenly over each, with the
normals of their triangles, are what koel gets. Errors are shares of area, as in docs/spatial.md; the worst of both clouds and all poses."""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import igl
import manifold3d
import numpy as np
import trimesh

MOST_DISTANCES = 2000
UNKNOWN, INTERSECTION, INSIDE, OUTSIDE = range(4)


def load(path):
    """A watertight mesh of diagonal 1 around the origin."""
    mesh = trimesh.load(path, force="mesh", process=False)
    mesh.merge_vertices(merge_tex=True, merge_norm=True)
    mesh.update_faces(mesh.nondegenerate_faces())
    mesh.remove_unreferenced_vertices()
    if not mesh.is_watertight:
        sys.exit(f"{path}: not watertight")
    if mesh.volume < 0:
        mesh.invert()
    mesh.apply_translation(-mesh.bounds.mean(axis=0))
    mesh.apply_scale(1 / mesh.scale)
    return mesh


def placed(mesh, random, offset):
    """Turned at random, then moved. Coordinates are those of `f32`, so that all programs see the same."""
    q = random.normal(size=4)
    turned = trimesh.transform_points(mesh.vertices, trimesh.transformations.quaternion_matrix(q / np.linalg.norm(q)))
    return trimesh.Trimesh((turned + offset).astype(np.float32).astype(np.float64), mesh.faces, process=False)


def sample(mesh, n, random):
    """Points spread evenly, and their triangles' normals."""
    corners = mesh.triangles
    of = random.choice(len(corners), size=n, p=mesh.area_faces / mesh.area_faces.sum())
    u, v = np.sqrt(random.random(n))[:, None], random.random(n)[:, None]
    a, b, c = (corners[of, i] for i in range(3))
    points = (1 - u) * a + u * (1 - v) * b + u * v * c
    return points.astype("<f4"), mesh.face_normals[of].astype("<f4")


def write_ply(path, points, normals):
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")] + ["end_header", ""]
    with open(path, "wb") as file:
        file.write("\n".join(header).encode())
        file.write(np.hstack([points, normals]).astype("<f4").tobytes())


def booleans(a, b):
    """manifold3d's volumes and the area of the intersection, and its milliseconds: to prepare both, and for one Boolean."""

    def solid(mesh):
        return manifold3d.Manifold(manifold3d.Mesh(np.float32(mesh.vertices), np.uint32(mesh.faces)))

    start = time.perf_counter()
    solids = [solid(mesh) for mesh in (a, b)]
    for s in solids:
        if s.status() != manifold3d.Error.NoError:
            sys.exit(f"manifold3d: {s.status()}")
    prepared = time.perf_counter()
    both = solids[0] ^ solids[1]
    volume = both.volume()  # it works when asked
    done = time.perf_counter()
    volumes = {
        "union": (solids[0] + solids[1]).volume(),
        "intersection": volume,
        "difference": (solids[0] - solids[1]).volume(),
        "reverse_difference": (solids[1] - solids[0]).volume(),
    }
    times = {"prepare": (prepared - start) * 1e3, "boolean": (done - prepared) * 1e3}
    return volumes, both.surface_area(), times


def is_inside(points, mesh):
    """By generalised winding numbers of the triangles."""
    return igl.fast_winding_number(mesh.vertices, mesh.faces.astype(np.int64), points.astype(np.float64)) > 0.5


def distances(points, mesh):
    return np.sqrt(igl.point_mesh_squared_distance(points.astype(np.float64), mesh.vertices, mesh.faces.astype(np.int64))[0])


def point_labels(points, report, folder, side):
    """The label of each point: that of its voxel."""
    n, h, origin = report["grid"], report["voxel_size"], np.array(report["origin"])
    rows = np.fromfile(os.path.join(folder, report[side]["labels_file"]), "<i4").reshape(-1, 4).astype(np.int64)
    key = lambda v: (v[:, 0] * n + v[:, 1]) * n + v[:, 2]
    order = np.argsort(key(rows))
    wanted = key(np.floor((points.astype(np.float64) - origin) / h).astype(np.int64))
    at = np.minimum(np.searchsorted(key(rows)[order], wanted), len(rows) - 1)
    found = rows[order[at]]
    return np.where(key(found) == wanted, found[:, 3], UNKNOWN)


def label_errors(labels, inside, points, other, h):
    wrong = np.flatnonzero((labels == INSIDE) & ~inside | (labels == OUTSIDE) & inside)
    # Distances take long: of many wrong points, those of some.
    asked = wrong[:: max(1, len(wrong) // MOST_DISTANCES)]
    far = np.mean(distances(points[asked], other) > 2 * h) if len(asked) else 0.0
    said = np.where(labels == INSIDE, 1.0, np.where(labels == INTERSECTION, 0.5, 0.0))[labels != UNKNOWN]
    return {
        "far": far * len(wrong) / len(labels),
        "wrong": len(wrong) / len(labels),
        "unknown": np.mean(labels == UNKNOWN),
        "share": abs(said.mean() - np.mean(inside)) if len(said) else 1.0,
    }


def run_koel(args, folder, clouds, grid, method):
    for name, cloud in zip("ab", clouds):
        write_ply(os.path.join(folder, f"{name}.ply"), *cloud)
    command = [args.koel, "--device", args.device, "intersect", "a.ply", "b.ply", "--grid", str(grid)]
    command += ["--method", method, "--out", "report.json"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "report.json")) as file:
        return json.load(file)


def scenes(args, meshes, points):
    """For each pose: clouds, their meshes, which points are inside the other one, what manifold3d says."""
    random = np.random.default_rng(args.seed)
    for _ in range(args.poses):
        way = random.normal(size=3)
        offset = args.offset * way / np.linalg.norm(way)
        solids = [placed(mesh, random, sign * offset / 2) for mesh, sign in zip(meshes, (-1, 1))]
        clouds = [sample(mesh, points, random) for mesh in solids]
        inside = [is_inside(clouds[i][0], solids[1 - i]) for i in range(2)]
        yield solids, clouds, inside, booleans(*solids)


def measure(args, scenes, points, grid, method):
    """The worst of all poses; the least times."""
    worst, least = {}, {}

    def note(errors):
        for name, value in errors.items():
            worst[name] = max(worst.get(name, 0), float(value))

    for solids, clouds, inside, (volumes, area, times) in scenes:
        with tempfile.TemporaryDirectory() as folder:
            report = run_koel(args, folder, clouds, grid, method)
            labels = [point_labels(cloud[0], report, folder, side) for cloud, side in zip(clouds, "ab")]
        for i in range(2):
            note(label_errors(labels[i], inside[i], clouds[i][0], solids[1 - i], report["voxel_size"]))
        if report["volumes"]:
            smaller = min(mesh.volume for mesh in solids)
            off = [abs(report["volumes"][op] - true) / max(true, smaller) for op, true in volumes.items()]
            found = sum(report[s]["area_share_inside"] * report[s]["areas"]["total"] for s in "ab")
            note({"volume": max(off), "area": abs(found - area) / area})
        frame = report["timings_ms"]["total"] - report["timings_ms"]["upload"]
        for name, value in {"koel": frame, **times}.items():
            least[name] = min(least.get(name, value), value)
    return {"points": points, "grid": grid, "method": method, **worst, "ms": least}


def table(rows):
    lines = [
        "| points a side, grid | method | wrong beyond 2 voxels | wrong | unknown | inside share off by | volume off by | area off by "
        "| koel, ms a frame | manifold3d, ms: prepare, Boolean |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    percent = lambda row, name, digits: f"{row[name] * 100:.{digits}f}" if name in row else "-"
    for row in rows:
        errors = [percent(row, name, digits) for name, digits in
                  (("far", 4), ("wrong", 3), ("unknown", 3), ("share", 3), ("volume", 2), ("area", 2))]
        ms = row["ms"]
        cells = [f"{row['points']:,}, {row['grid']}^3", row["method"], *errors]
        cells += [f"{ms['koel']:.1f}", f"{ms['prepare']:.0f}, {ms['boolean']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def driver():
    """Returns the version of NVIDIA's kernel module, where Linux tells it."""
    try:
        with open("/sys/module/nvidia/version") as file:
            return file.read().strip()
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--koel", required=True, help="the program")
    parser.add_argument("--meshes", required=True, help="the folder of bunny.obj and dragon.obj")
    parser.add_argument("--out", required=True, help="what is written, without .json and .txt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--poses", type=int, default=3)
    parser.add_argument("--offset", type=float, default=0.15, help="between the centres, in diagonals of a mesh")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default="160000:128,160000:256,1000000:256", help="points:grid, ...")
    args = parser.parse_args()
    args.koel = os.path.abspath(args.koel)
    meshes = [load(os.path.join(args.meshes, name)) for name in ("bunny.obj", "dragon.obj")]
    rows = []
    made = {}
    for size in args.sizes.split(","):
        points, grid = map(int, size.split(":"))
        if points not in made:
            made = {points: list(scenes(args, meshes, points))}
        for method in ("robust", "paper"):
            rows.append(measure(args, made[points], points, grid, method))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    about = {
        "command": "truth.py " + " ".join(f"--{k} {v}" for k, v in vars(args).items() if k not in ("koel", "meshes", "out")),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit,
        "driver": driver() if args.device.startswith("cuda") else None,
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "triangles": [len(mesh.faces) for mesh in meshes],
    }
    with open(args.out + ".json", "w") as file:
        json.dump({**about, "rows": rows}, file, indent=1)
        file.write("\n")
    with open(args.out + ".txt", "w") as file:
        file.write(f"{about['command']}: {about['date']}, commit {commit}\n{table(rows)}")


if __name__ == "__main__":
    main()
