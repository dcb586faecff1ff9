// The device's side of conditional nodes for NVRTC, which does not declare it. The driver has its
// definition, and resolves it when an image is loaded: nothing is linked for it.
#pragma once

typedef unsigned long long cudaGraphConditionalHandle;

extern "C" __device__ void cudaGraphSetConditional(cudaGraphConditionalHandle handle,
                                                   unsigned value);
