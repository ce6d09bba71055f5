"""Makes cortex.ply from a skull-stripped MRI: python3 cortex.py ch2bet.nii.gz cortex.ply

Smooths, takes the largest region brighter than cerebrospinal fluid, runs marching cubes over its border, reduces to
96,000 triangles, rounds coordinates to 1/64 mm, writes a binary PLY file. LICENCES.md has the versions used.
"""

import sys

import fast_simplification
import nibabel
import numpy as np
from scipy import ndimage
from skimage import measure

LEVEL = np.float32(64)  # between cerebrospinal fluid (35 to 50) and grey matter (75 to 85)
TRIANGLES = 96_000
PAD = 2

source, target = sys.argv[1:]
image = nibabel.load(source)
volume = np.pad(np.asanyarray(image.dataobj).astype(np.float32), PAD)
volume = ndimage.gaussian_filter(volume, 0.6)

# One region without cavities, so that the surface is one and closed.
labels, _ = ndimage.label(volume > LEVEL)
largest = np.argmax(np.bincount(labels.ravel())[1:]) + 1
solid = ndimage.binary_fill_holes(labels == largest)
volume = np.where(solid, np.maximum(volume, LEVEL + 0.5), np.where(volume > LEVEL, LEVEL - 0.5, volume))
vertices, faces, _, _ = measure.marching_cubes(volume, LEVEL)
vertices = (vertices - PAD) @ image.affine[:3, :3].T + image.affine[:3, 3]

vertices, faces = fast_simplification.simplify(
    vertices.astype(np.float32), faces.astype(np.int32), target_count=TRIANGLES
)
vertices = (np.round(vertices * 64) / 64).astype("<f4")
corners = vertices[faces]
if np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) < 0:
    faces = faces[:, ::-1]

records = np.zeros(len(faces), dtype=[("length", "u1"), ("corners", "<u4", 3)])
records["length"] = 3
records["corners"] = faces
header = f"""ply
format binary_little_endian 1.0
comment Brain surface from the Colin 27 MRI, millimetres; provenance and terms in LICENCES.md
comment Copyright (C) 1993-2009 Louis Collins, McConnell Brain Imaging Centre, Montreal Neurological Institute, McGill University
element vertex {len(vertices)}
property float x
property float y
property float z
element face {len(faces)}
property list uchar uint vertex_indices
end_header
"""
with open(target, "wb") as file:
    file.write(header.encode())
    file.write(vertices.tobytes())
    file.write(records.tobytes())
