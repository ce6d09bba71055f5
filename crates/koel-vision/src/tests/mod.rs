//! Tests of what is not public: features and refinement.
mod agreement;
mod features;
mod perspective;
mod refine;
