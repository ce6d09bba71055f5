//! Tests of what is not public: features, refinement and the published method.
mod agreement;
mod features;
mod naive;
mod paper;
mod perspective;
mod refine;
