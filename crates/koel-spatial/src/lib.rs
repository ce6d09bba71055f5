//! Voxel keys of real scans.
