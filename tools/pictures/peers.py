"""Finders for comparison: SIFT and ORB of OpenCV with MAGSAC++; others are in learned.py."""
import cv2
import numpy as np

RATIO = 0.8
INLIERS = 10


def features(kind, picture):
    finder = cv2.SIFT_create() if kind == "SIFT" else cv2.ORB_create(3000)
    return finder.detectAndCompute(picture, None)


def find_with_inliers(kind, model, scene):
    """The 3 x 3 homography from model to scene, or None, and its inliers."""
    if kind in ("ALIKED", "XFeat"):
        import learned
        return learned.find_with_inliers(kind, model, scene)
    (kp1, d1), (kp2, d2) = features(kind, model), features(kind, scene)
    if d1 is None or d2 is None or len(kp1) < 4 or len(kp2) < 4:
        return None, 0
    norm = cv2.NORM_L2 if kind == "SIFT" else cv2.NORM_HAMMING
    matches = cv2.BFMatcher(norm).knnMatch(d1, d2, k=2)
    good = [m[0] for m in matches if len(m) == 2 and m[0].distance < RATIO * m[1].distance]
    if len(good) < INLIERS:
        return None, 0
    p = np.float32([kp1[m.queryIdx].pt for m in good])
    q = np.float32([kp2[m.trainIdx].pt for m in good])
    h, mask = cv2.findHomography(p, q, cv2.USAC_MAGSAC, 3.0, maxIters=10000, confidence=0.999)
    return h, 0 if h is None else int(mask.sum())
