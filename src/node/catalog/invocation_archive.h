// Requests and results of asynchronous invocations as bytes, as the shared catalog keeps them.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/invocation.h"

namespace lambent::catalog {

// 16 bytes, high half first, so that ids sort as they read.
std::string bytes_of_id(InvocationId id);
// The id zero of what is none.
InvocationId id_of_bytes(std::string_view bytes);

// Without its id, function, kind, key and objects.
std::string bytes_of_request(const InvocationRequest& request);
// DATA_LOSS.
Result<void> read_request(std::string_view bytes, InvocationRequest& request);

// Of several devices, bit N - 1 for device N: they are whole ones, of which there are 64 at most.
uint64_t bits_of(const std::vector<DeviceId>& devices);
std::vector<DeviceId> devices_of(uint64_t bits);

// Without its id and the devices beside its first one, for which each catalog has a column.
std::string bytes_of_result(const InvocationResult& result);
// DATA_LOSS. With those devices if some program wrote them there.
Result<InvocationResult> read_result(std::string_view bytes);

}  // namespace lambent::catalog
