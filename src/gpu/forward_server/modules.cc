#include "gpu/forward_server/modules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "gpu/forward_server/module_image.h"

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;

// Of zeros behind an image, so that PTX ends and what reads a little too far finds nothing of
// others.
constexpr size_t kTailBytes = 4096;
constexpr size_t kLogBytes = 16 << 10;
constexpr int kAttributes = 16;
// What loading may take on the device beyond what the image says, without being counted: code is
// compiled, and what others do at that moment is seen too.
constexpr uint64_t kUncounted = 64 << 20;
static_assert(3 + kAttributes <= forward_ring::kAnswerValues);

}  // namespace

bool Modules::handle(const Call& call, std::span<const char> data) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kLoadModule:
      load(call);
      return true;
    case CallCode::kFindFunction:
      find_function(call, data);
      return true;
    case CallCode::kFindGlobal:
      find_global(call, data);
      return true;
    case CallCode::kListFunctions:
      list_functions(call);
      return true;
    default:
      return false;
  }
}

void Modules::load(const Call& call) {
  std::string image = upload_.take();
  const Bytes uploaded(image.size());
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Module module;
  module.context = call.arguments[0];
  std::string log(kLogBytes, '\0');
  CUresult result = CUDA_SUCCESS;
  if (!streams_.has_context(module.context)) result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS) result = load_counted(image, &log, &module);
  uint64_t number = 0;
  if (result == CUDA_SUCCESS) {
    CUmodule loaded = module.module;
    const Bytes counted = module.counted;
    number = table_.add(std::move(module));
    if (number == 0) {
      driver_->module_unload(loaded);
      memory_.give_back(counted);
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  image = {};
  memory_.give_back_upload(uploaded);
  const size_t log_bytes = std::strlen(log.c_str());
  std::memcpy(pages_.chunk_bytes[chunk], log.data(), log_bytes);
  answers_.release_chunk(chunk, result);
  answers_.answer(call, result, {number, log_bytes});
}

size_t Modules::free_memory() const {
  size_t free = 0, total = 0;
  return driver_->mem_get_info(&free, &total) == CUDA_SUCCESS ? free : 0;
}

// A module's memory counts as the client's: its image, and variables that are not in there. The
// driver does not say what it takes, and an image may hide it (in PTX, or packed): if much more is
// gone afterwards, and comes back with the module, that was it.
CUresult Modules::load_counted(std::string& image, std::string* log, Module* module) {
  const ModuleImage said = read_module_image(image);
  if (!said.is_sound) return CUDA_ERROR_INVALID_IMAGE;
  const uint64_t limit = memory_.limit().count;
  if (said.zeros.count > limit || image.size() > limit) return CUDA_ERROR_OUT_OF_MEMORY;
  Bytes counted = Bytes(image.size()) + said.zeros;
  image.append(kTailBytes, '\0');
  const auto load = [&] {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log->data(), reinterpret_cast<void*>(log->size() - 1)};
    return driver_->module_load_data_ex(&module->module, image.data(), 2, options, values);
  };
  if (!memory_.take(counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t before = free_memory();
  CUresult result = load();
  const size_t after = free_memory();
  const uint64_t unsaid = counted.count + kUncounted;
  if (result == CUDA_SUCCESS && before > after && before - after > unsaid) {
    driver_->module_unload(module->module);
    const size_t without = free_memory();
    const size_t taken = std::min(before - after, without > after ? without - after : 0);
    if (taken > unsaid) {
      memory_.cancel(counted);
      counted = Bytes(taken);
      if (!memory_.take(counted)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = load();
  }
  if (result != CUDA_SUCCESS) {
    memory_.cancel(counted);
    return result;
  }
  memory_.keep(counted);
  module->counted = counted;
  return CUDA_SUCCESS;
}

uint64_t Modules::context_of(uint64_t number) {
  const Module* module = table_.find(number);
  return module == nullptr ? 0 : module->context;
}

void Modules::unload(uint64_t number) {
  Module* module = table_.find(number);
  if (module == nullptr) return;
  for (const auto& [function, each] : module->functions) functions_.erase(each);
  for (const auto& [name, address] : module->globals) ranges_.erase(address);
  answers_.check(driver_->module_unload(module->module));
  memory_.give_back(module->counted);
  table_.erase(number);
}

void Modules::unload_all_of(uint64_t context) {
  table_.for_each([&](uint64_t number, Module& module) {
    if (module.context == context) unload(number);
  });
}

// A function has one number, however often it is found.
CUresult Modules::enter_function(uint64_t number, CUfunction function, uint64_t* entered) {
  Module* module = table_.find(number);
  if (const auto known = module->functions.find(function); known != module->functions.end()) {
    *entered = known->second;
    return CUDA_SUCCESS;
  }
  if (const CUresult result = functions_.add(number, function, entered)) return result;
  module->functions.emplace(function, *entered);
  return CUDA_SUCCESS;
}

void Modules::find_function(const Call& call, std::span<const char> data) {
  Module* module = table_.find(call.arguments[0]);
  if (module == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const std::string name(data.begin(), data.end());
  if (name.find('\0') != name.npos) return answers_.answer(call, CUDA_ERROR_NOT_FOUND);
  CUfunction found = nullptr;
  CUresult result = driver_->module_get_function(&found, module->module, name.c_str());
  uint64_t number = 0;
  if (result == CUDA_SUCCESS) result = enter_function(call.arguments[0], found, &number);
  if (result != CUDA_SUCCESS) return answers_.answer(call, result);
  const Function& function = *functions_.find(number);
  std::array<uint64_t, 3 + kAttributes> values = {number, function.parameters->size(),
                                                  function.parameter_bytes};
  for (int attribute = 0; attribute < kAttributes; ++attribute) {
    int value = 0;
    driver_->func_get_attribute(&value, static_cast<CUfunction_attribute>(attribute), found);
    values[3 + attribute] = static_cast<uint32_t>(value);
  }
  answers_.answer(call, CUDA_SUCCESS, values);
}

void Modules::find_global(const Call& call, std::span<const char> data) {
  Module* module = table_.find(call.arguments[0]);
  if (module == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const std::string name(data.begin(), data.end());
  // Else one variable would have any number of names here.
  if (name.find('\0') != name.npos) return answers_.answer(call, CUDA_ERROR_NOT_FOUND);
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult result =
      driver_->module_get_global(&address, &bytes, module->module, name.c_str());
  if (result != CUDA_SUCCESS) return answers_.answer(call, result);
  ranges_.add(address, {bytes, 0, module->context, call.arguments[0]});
  module->globals[name] = address;
  answers_.answer(call, CUDA_SUCCESS, {address, bytes});
}

void Modules::list_functions(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Module* module = table_.find(call.arguments[0]);
  unsigned count = 0;
  CUresult result = module == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                      : driver_->module_get_function_count(&count, module->module);
  std::vector<uint64_t> numbers;
  if (result == CUDA_SUCCESS && count * sizeof(uint64_t) > forward_ring::kChunkBytes) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  std::vector<CUfunction> found(result == CUDA_SUCCESS ? count : 0);
  if (!found.empty()) {
    result = driver_->module_enumerate_functions(found.data(), count, module->module);
  }
  for (size_t i = 0; i < found.size() && result == CUDA_SUCCESS; ++i) {
    uint64_t number = 0;
    result = enter_function(call.arguments[0], found[i], &number);
    numbers.push_back(number);
  }
  if (result == CUDA_SUCCESS && !numbers.empty()) {
    std::memcpy(pages_.chunk_bytes[chunk], numbers.data(), numbers.size() * sizeof(uint64_t));
  }
  answers_.release_chunk(chunk, result);
  answers_.answer(call, result, {numbers.size()});
}

}  // namespace lambent::forward_server
