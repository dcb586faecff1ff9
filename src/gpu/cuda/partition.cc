#include "gpu/cuda/partition.h"

namespace lambent::cuda {

Result<Multiprocessors> Multiprocessors::of(const Driver& driver, int ordinal) {
  const bool knows = driver->device_get_dev_resource != nullptr &&
                     driver->dev_sm_resource_split_by_count != nullptr &&
                     driver->dev_resource_generate_desc != nullptr &&
                     driver->green_ctx_create != nullptr &&
                     driver->green_ctx_stream_create != nullptr;
  if (!knows) return Error{ErrorCode::kUnimplemented, "this driver has no green contexts"};
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  CUdevResource all{};
  RETURN_IF_ERROR(
      driver.check(driver->device_get_dev_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM),
                   "cuDeviceGetDevResource"));
  unsigned count = 0;
  RETURN_IF_ERROR(
      driver.check(driver->dev_sm_resource_split_by_count(nullptr, &count, &all, nullptr, 0, 1),
                   "cuDevSmResourceSplitByCount"));
  Multiprocessors found;
  found.count_ = all.sm.smCount;
  found.groups_.resize(count);
  RETURN_IF_ERROR(driver.check(
      driver->dev_sm_resource_split_by_count(found.groups_.data(), &count, &all, nullptr, 0, 1),
      "cuDevSmResourceSplitByCount"));
  found.groups_.resize(count);
  if (found.groups_.empty()) {
    return Error{ErrorCode::kUnimplemented, "this device's multiprocessors cannot be split"};
  }
  found.group_size_ = found.groups_.front().sm.smCount;
  return found;
}

Result<GreenContext> GreenContext::create(const Driver& driver, int ordinal,
                                          const Multiprocessors& all,
                                          std::span<const uint32_t> groups) {
  std::vector<CUdevResource> resources;
  for (const uint32_t group : groups) resources.push_back(all.groups_.at(group));
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  CUdevResourceDesc description = nullptr;
  RETURN_IF_ERROR(
      driver.check(driver->dev_resource_generate_desc(&description, resources.data(),
                                                      static_cast<unsigned>(resources.size())),
                   "cuDevResourceGenerateDesc"));
  CUgreenCtx green = nullptr;
  RETURN_IF_ERROR(driver.check(
      driver->green_ctx_create(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
      "cuGreenCtxCreate"));
  return GreenContext(&driver, green);
}

GreenContext::~GreenContext() {
  if (green_ != nullptr) (*driver_)->green_ctx_destroy(green_);
}

Result<CUcontext> GreenContext::context() const {
  CUcontext context = nullptr;
  RETURN_IF_ERROR(
      driver_->check((*driver_)->ctx_from_green_ctx(&context, green_), "cuCtxFromGreenCtx"));
  return context;
}

}  // namespace lambent::cuda
