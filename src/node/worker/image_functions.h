// Functions of container images: what is checked of one, where its image lies, and what the image
// says of it. Used by Deployments and PackageRecovery.
#pragma once

#include <functional>
#include <string>

#include "core/domain/function.h"
#include "core/domain/image_function.h"
#include "node/images/store.h"
#include "node/worker/function_rules.h"

namespace lambent::worker {

// Where a path of the host lies that the tenant may use; empty: it may use none.
using HostPaths = std::function<Result<std::string>(TenantId, const std::string& path)>;

// Of a function of an image, whatever the image is.
Result<void> check_image_function(const FunctionSpec& spec);

// Where an image of the worker's machine lies; empty: it is a registry's.
Result<std::string> host_path_of(const HostPaths& paths, TenantId tenant,
                                 const ImageReference& image);

// Whether it was deployed with this image already, here or where this node has it from: no client
// says what digest its code has.
bool has_image_elsewhere(const FunctionSpec& spec, const ImageReference& image);

// What the image says of what the function does not, and what the function is known by from then
// on: the digest that its tag named.
Result<void> fit_to_image(FunctionSpec& spec, const images::PulledImage& image,
                          const images::ImageStore& store, const FunctionRules& rules,
                          const OtherNodes& others);

}  // namespace lambent::worker
