// ServedProcess: modules, their functions and variables.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/forward_server/module_image.h"
#include "gpu/forward_server/served_process.h"

namespace lambent::forward_server {
namespace {

// Of zeros behind an image, so that PTX ends and what reads a little too far finds nothing of
// others.
constexpr size_t kTailBytes = 4096;
constexpr size_t kLogBytes = 16 << 10;
constexpr size_t kMostParameters = 4096;
constexpr int kAttributes = 16;
// What loading may take on the device beyond what the image says, without being counted: code is
// compiled, and what others do at that moment is seen too.
constexpr uint64_t kUncounted = 64 << 20;
static_assert(3 + kAttributes <= forward_ring::kAnswerValues);

}  // namespace

void ServedProcess::upload(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[0]);
  const uint64_t bytes = call.arguments[1];
  CUresult result = CUDA_SUCCESS;
  if (bytes > forward_ring::kChunkBytes) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && !memory_->take_upload(Bytes(bytes))) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) image_.append(pages_.chunk_bytes[chunk], bytes);
  note(result);
  let_chunk_go(chunk, result);
}

void ServedProcess::load_module(const Call& call) {
  std::string image = std::exchange(image_, {});
  const Bytes uploaded(image.size());
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Module module;
  module.context = call.arguments[0];
  std::string log(kLogBytes, '\0');
  CUresult result = CUDA_SUCCESS;
  if (contexts_.count(module.context) == 0) result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS) result = load_counted(image, &log, &module);
  uint64_t number = 0;
  if (result == CUDA_SUCCESS) {
    CUmodule loaded = module.module;
    const Bytes counted = module.counted;
    number = modules_.add(std::move(module));
    if (number == 0) {
      driver_->module_unload(loaded);
      memory_->give_back(counted);
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  image = {};
  memory_->give_back_upload(uploaded);
  const size_t log_bytes = std::strlen(log.c_str());
  std::memcpy(pages_.chunk_bytes[chunk], log.data(), log_bytes);
  let_chunk_go(chunk, result);
  answer(call, result, {number, log_bytes});
}

// A module's memory counts as the client's: its image, and variables that are not in there. The
// driver does not say what it takes, and an image may hide it (in PTX, or packed): if much more is
// gone afterwards, and comes back with the module, that was it.
CUresult ServedProcess::load_counted(std::string& image, std::string* log, Module* module) {
  const ModuleImage said = read_module_image(image);
  if (!said.is_sound) return CUDA_ERROR_INVALID_IMAGE;
  const uint64_t limit = memory_->limit().count;
  if (said.zeros.count > limit || image.size() > limit) return CUDA_ERROR_OUT_OF_MEMORY;
  Bytes counted = Bytes(image.size()) + said.zeros;
  image.append(kTailBytes, '\0');
  const auto load = [&] {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log->data(), reinterpret_cast<void*>(log->size() - 1)};
    return driver_->module_load_data_ex(&module->module, image.data(), 2, options, values);
  };
  const auto free_memory = [&] {
    size_t free = 0, total = 0;
    return driver_->mem_get_info(&free, &total) == CUDA_SUCCESS ? free : 0;
  };
  if (!memory_->take(counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t before = free_memory();
  CUresult result = load();
  const size_t after = free_memory();
  const uint64_t unsaid = counted.count + kUncounted;
  if (result == CUDA_SUCCESS && before > after && before - after > unsaid) {
    driver_->module_unload(module->module);
    const size_t without = free_memory();
    const size_t taken = std::min(before - after, without > after ? without - after : 0);
    if (taken > unsaid) {
      memory_->cancel(counted);
      counted = Bytes(taken);
      if (!memory_->take(counted)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = load();
  }
  if (result != CUDA_SUCCESS) {
    memory_->cancel(counted);
    return result;
  }
  memory_->keep(counted);
  module->counted = counted;
  return CUDA_SUCCESS;
}

void ServedProcess::unload_module(const Call& call) {
  if (modules_.find(call.arguments[0]) == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  // Kernels of it may still run on any stream.
  completions_->when_all_done(streams_.all(), [this, call](CUresult result) {
    drop_module(call.arguments[0]);
    answer(call, result);
  });
}

void ServedProcess::drop_module(uint64_t number) {
  Module* module = modules_.find(number);
  if (module == nullptr) return;
  release_graphs_if([&](const ExecutableGraph& graph) { return graph.uses_module(number); });
  for (const auto& [function, each] : module->functions) functions_.erase(each);
  for (const auto& [name, address] : module->globals) ranges_.erase(address);
  seen(driver_->module_unload(module->module));
  memory_->give_back(module->counted);
  memory_->give_back_upload(module->counted_on_host);
  modules_.erase(number);
}

CUresult ServedProcess::add_function(uint64_t module_number, CUfunction function,
                                     uint64_t* number) {
  Module* module = modules_.find(module_number);
  if (const auto known = module->functions.find(function); known != module->functions.end()) {
    *number = known->second;
    return CUDA_SUCCESS;
  }
  Function entry;
  entry.function = function;
  entry.module = module_number;
  std::vector<forward_ring::ParameterPlace> places;
  if (driver_->func_get_param_info == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t index = 0;; ++index) {
    size_t offset = 0, bytes = 0;
    const CUresult result = driver_->func_get_param_info(function, index, &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    if (result != CUDA_SUCCESS) return result;
    if (index == kMostParameters) return CUDA_ERROR_NOT_SUPPORTED;
    places.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
    entry.parameter_bytes = std::max<uint64_t>(entry.parameter_bytes, offset + bytes);
  }
  entry.parameters =
      std::make_shared<const std::vector<forward_ring::ParameterPlace>>(std::move(places));
  if (entry.parameter_bytes > forward_ring::kMostInlineBytes) return CUDA_ERROR_NOT_SUPPORTED;
  const Bytes known(entry.parameters->size() * sizeof(forward_ring::ParameterPlace));
  if (!memory_->take_upload(known)) return CUDA_ERROR_OUT_OF_MEMORY;
  *number = functions_.add(std::move(entry));
  if (*number == 0) {
    memory_->give_back_upload(known);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  module->counted_on_host += known;
  module->functions.emplace(function, *number);
  return CUDA_SUCCESS;
}

void ServedProcess::find_function(const Call& call) {
  Module* module = modules_.find(call.arguments[0]);
  if (module == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  const std::string name(data(), data_bytes(call));
  if (name.find('\0') != name.npos) return answer(call, CUDA_ERROR_NOT_FOUND);
  CUfunction found = nullptr;
  CUresult result = driver_->module_get_function(&found, module->module, name.c_str());
  uint64_t number = 0;
  if (result == CUDA_SUCCESS) result = add_function(call.arguments[0], found, &number);
  if (result != CUDA_SUCCESS) return answer(call, result);
  const Function& function = *functions_.find(number);
  auto* values = pages_.slots[call.slot].values;
  for (int attribute = 0; attribute < kAttributes; ++attribute) {
    int value = 0;
    driver_->func_get_attribute(&value, static_cast<CUfunction_attribute>(attribute), found);
    values[3 + attribute] = static_cast<uint32_t>(value);
  }
  answer(call, CUDA_SUCCESS, {number, function.parameters->size(), function.parameter_bytes});
}

void ServedProcess::find_global(const Call& call) {
  Module* module = modules_.find(call.arguments[0]);
  if (module == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  const std::string name(data(), data_bytes(call));
  // Else one variable would have any number of names here.
  if (name.find('\0') != name.npos) return answer(call, CUDA_ERROR_NOT_FOUND);
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult result =
      driver_->module_get_global(&address, &bytes, module->module, name.c_str());
  if (result != CUDA_SUCCESS) return answer(call, result);
  ranges_.add(address, {bytes, 0, module->context, call.arguments[0]});
  module->globals[name] = address;
  answer(call, CUDA_SUCCESS, {address, bytes});
}

void ServedProcess::list_functions(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Module* module = modules_.find(call.arguments[0]);
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
    result = add_function(call.arguments[0], found[i], &number);
    numbers.push_back(number);
  }
  if (result == CUDA_SUCCESS && !numbers.empty()) {
    std::memcpy(pages_.chunk_bytes[chunk], numbers.data(), numbers.size() * sizeof(uint64_t));
  }
  let_chunk_go(chunk, result);
  answer(call, result, {numbers.size()});
}

void ServedProcess::function_name(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Function* function = functions_.find(call.arguments[0]);
  const char* name = nullptr;
  CUresult result = function == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                        : driver_->func_get_name(&name, function->function);
  size_t bytes = 0;
  if (result == CUDA_SUCCESS) {
    bytes = std::min(std::strlen(name), forward_ring::kChunkBytes);
    std::memcpy(pages_.chunk_bytes[chunk], name, bytes);
  }
  let_chunk_go(chunk, result);
  answer(call, result, {bytes});
}

void ServedProcess::function_parameters(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  Function* function = functions_.find(call.arguments[0]);
  const CUresult result = function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  size_t count = 0;
  if (function != nullptr && !function->parameters->empty()) {
    count = function->parameters->size();
    static_assert(kMostParameters * sizeof(forward_ring::ParameterPlace) <=
                  forward_ring::kChunkBytes);
    std::memcpy(pages_.chunk_bytes[chunk], function->parameters->data(),
                count * sizeof(forward_ring::ParameterPlace));
  }
  let_chunk_go(chunk, result);
  answer(call, result, {count});
}

void ServedProcess::function_attribute(const Call& call) {
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  const CUresult result = driver_->func_get_attribute(
      &value, static_cast<CUfunction_attribute>(static_cast<int>(call.arguments[1])),
      function->function);
  answer(call, result, {static_cast<uint32_t>(value)});
}

void ServedProcess::set_function_attribute(const Call& call) {
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  answer(call, driver_->func_set_attribute(
                   function->function,
                   static_cast<CUfunction_attribute>(static_cast<int>(call.arguments[1])),
                   static_cast<int>(call.arguments[2])));
}

void ServedProcess::set_cache_config(const Call& call) {
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  answer(call,
         driver_->func_set_cache_config(
             function->function, static_cast<CUfunc_cache>(static_cast<int>(call.arguments[1]))));
}

void ServedProcess::occupancy(const Call& call) {
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  int blocks = 0;
  const CUresult result = driver_->occupancy_max_active_blocks_per_multiprocessor_with_flags(
      &blocks, function->function, static_cast<int>(call.arguments[1]), call.arguments[2],
      static_cast<unsigned>(call.arguments[3]));
  answer(call, result, {static_cast<uint32_t>(blocks)});
}

void ServedProcess::occupancy_shared_memory(const Call& call) {
  Function* function = functions_.find(call.arguments[0]);
  if (function == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  size_t bytes = 0;
  const CUresult result = driver_->occupancy_available_dynamic_shared_memory_per_block(
      &bytes, function->function, static_cast<int>(call.arguments[1]),
      static_cast<int>(call.arguments[2]));
  answer(call, result, {bytes});
}

}  // namespace lambent::forward_server
