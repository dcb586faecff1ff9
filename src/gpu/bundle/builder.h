// Makes a kernel bundle from a .cu file: host image, and device images where NVRTC is there; or
// from a library of kernels that is compiled already, a .ptx file: a host image, and the PTX.
// Blocks for the time of the compilers, which run as child processes. Used by lambent-bundle.
#pragma once

#include <string>

#include "core/base/result.h"
#include "gpu/bundle/child_process.h"
#include "gpu/bundle/manifest.h"

namespace lambent::bundle {

struct BuildRequest {
  std::string source;
  std::string output_folder;  // replaced if it is a bundle or empty
  std::string name;           // empty: the source's file name without .cu
  std::string architecture = "sm_90";
  bool host_only = false;      // no device images even where there is NVRTC
  std::string host_compiler;   // empty: clang++, else g++
  std::string include_folder;  // holds lambent/kernel.h
  // The program that answers `inspect MODULE` and `compile-device ...`: lambent-bundle itself.
  std::string worker_program;
  // Of each compiler, on a machine that may have other things to do.
  ChildLimits limits = {.wall_time = seconds(600)};
};

struct BuildOutcome {
  Manifest manifest;
  std::string note;  // why there are no device images; empty if there are
};

Result<BuildOutcome> build_bundle(const BuildRequest& request);

}  // namespace lambent::bundle
