"""Errors of `koel intersect` on the bunny and the dragon, against manifold3d's Booleans and libigl's distances and winding numbers.

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
# Points of each mesh of koel whose distance from manifold3d's is measured, and the reverse.
MESH_SAMPLES = 20000
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
    """manifold3d's meshes of all Booleans, and its milliseconds: to prepare both, and for one Boolean."""

    def solid(mesh):
        return manifold3d.Manifold(manifold3d.Mesh(np.float32(mesh.vertices), np.uint32(mesh.faces)))

    start = time.perf_counter()
    solids = [solid(mesh) for mesh in (a, b)]
    for s in solids:
        if s.status() != manifold3d.Error.NoError:
            sys.exit(f"manifold3d: {s.status()}")
    prepared = time.perf_counter()
    both = solids[0] ^ solids[1]
    both.volume()  # it works when asked
    done = time.perf_counter()
    made = {
        "union": solids[0] + solids[1],
        "intersection": both,
        "difference": solids[0] - solids[1],
        "reverse_difference": solids[1] - solids[0],
    }

    def trimesh_of(solid):
        mesh = solid.to_mesh()
        return trimesh.Trimesh(mesh.vert_properties[:, :3].astype(np.float64), mesh.tri_verts, process=False)

    times = {"prepare": (prepared - start) * 1e3, "boolean": (done - prepared) * 1e3}
    return {op: (s.volume(), s.surface_area(), trimesh_of(s)) for op, s in made.items()}, times


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


def run_koel(args, folder, grid, *options):
    """The report, and the seconds of the whole program."""
    command = [args.koel, "--device", args.device, "intersect", "a.ply", "b.ply", "--grid", str(grid)]
    start = time.perf_counter()
    subprocess.run([*command, *options, "--out", "report.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    with open(os.path.join(folder, "report.json")) as file:
        return json.load(file), seconds


def mesh_errors(made, truth, area, h):
    """Of one of koel's meshes against manifold3d's: shares, and distances in voxels, to it and from it."""
    to = distances(trimesh.sample.sample_surface(made, MESH_SAMPLES, seed=1)[0], truth) / h
    back = distances(trimesh.sample.sample_surface(truth, MESH_SAMPLES, seed=1)[0], made) / h
    edges = np.sort(made.edges, axis=1)
    return {
        "mesh_area": abs(made.area - area) / area,
        "mesh_mean": to.mean(),
        "mesh_max": to.max(),
        "mesh_mean_back": back.mean(),
        "mesh_max_back": back.max(),
        "mesh_open_edges": 0 if made.is_watertight and made.is_winding_consistent else len(edges),
    }


def scenes(args, meshes, points):
    """For each pose: clouds, their meshes, which points are inside the other one, what manifold3d says."""
    random = np.random.default_rng(args.seed)
    for _ in range(args.poses):
        way = random.normal(size=3)
        offset = args.offset * way / np.linalg.norm(way)
        solids = [placed(mesh, random, sign * offset / 2) for mesh, sign in zip(meshes, (-1, 1))]
        clouds = [sample(mesh, points, random) for mesh in solids]
        start = time.perf_counter()
        inside = [is_inside(clouds[i][0], solids[1 - i]) for i in range(2)]
        libigl = (time.perf_counter() - start) * 1e3
        made, times = booleans(*solids)
        yield solids, clouds, inside, made, {"libigl": libigl, **times}


def measure(args, scenes, points, grid, method):
    """The worst of all poses; the least times."""
    worst, least = {}, {}

    def note(errors):
        for name, value in errors.items():
            worst[name] = max(worst.get(name, 0), float(value))

    for solids, clouds, inside, booleans, times in scenes:
        with tempfile.TemporaryDirectory() as folder:
            for name, cloud in zip("ab", clouds):
                write_ply(os.path.join(folder, f"{name}.ply"), *cloud)
            report, seconds = run_koel(args, folder, grid, "--method", method)
            times["koel program"] = seconds * 1e3
            times["koel"] = report["timings_ms"]["total"] - report["timings_ms"]["upload"]
            h = report["voxel_size"]
            labels = [point_labels(cloud[0], report, folder, side) for cloud, side in zip(clouds, "ab")]
            smaller = min(mesh.volume for mesh in solids)
            for op, (volume, area, truth) in booleans.items() if method == "robust" else ():
                options = ["--boolean", op.replace("_", "-"), "--out-mesh", "mesh.ply"]
                of_boolean, _ = run_koel(args, folder, grid, *options)
                made = trimesh.load(os.path.join(folder, "mesh.ply"), process=False)
                note(mesh_errors(made, truth, area, h))
                off = abs(of_boolean["volumes"][op] - volume)
                note({"volume": off / max(volume, smaller), "off_by_estimate": off / of_boolean["volume_errors"][op]})
                for name in ("volumes", "mesh"):
                    times[f"koel {name}"] = of_boolean["timings_ms"][name]
        for i in range(2):
            note(label_errors(labels[i], inside[i], clouds[i][0], solids[1 - i], h))
        if method == "robust":
            area = booleans["intersection"][1]
            found = sum(report[s]["area_share_inside"] * report[s]["areas"]["total"] for s in "ab")
            note({"area": abs(found - area) / area})
        for name, value in times.items():
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


def mesh_table(rows):
    lines = [
        "| points a side, grid | volume off by, % | that by its estimate | area off by, % | distance, mean and max | back, mean and max "
        "| open edges | koel, ms: frame, volumes, mesh; program | manifold3d, ms: prepare, Boolean | libigl, ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "mesh_area" not in row:
            continue
        ms = row["ms"]
        cells = [f"{row['points']:,}, {row['grid']}^3", f"{row['volume'] * 100:.2f}", f"{row['off_by_estimate']:.2f}"]
        cells += [f"{row['mesh_area'] * 100:.2f}", f"{row['mesh_mean']:.3f}, {row['mesh_max']:.2f}"]
        cells += [f"{row['mesh_mean_back']:.3f}, {row['mesh_max_back']:.2f}", f"{row['mesh_open_edges']:.0f}"]
        cells += [f"{ms['koel']:.0f}, {ms['koel volumes']:.0f}, {ms['koel mesh']:.0f}; {ms['koel program']:.0f}"]
        cells += [f"{ms['prepare']:.0f}, {ms['boolean']:.0f}", f"{ms['libigl']:.0f}"]
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
            print(table(rows[-1:]).splitlines()[-1], *mesh_table(rows[-1:]).splitlines()[2:], sep="\n", flush=True)
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
        file.write(f"{about['command']}: {about['date']}, commit {commit}\n{table(rows)}\n{mesh_table(rows)}")


if __name__ == "__main__":
    main()
