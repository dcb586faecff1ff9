// Nothing of it is needed on the host. Used by kernels.
#pragma once

#include "util_type.cuh"
