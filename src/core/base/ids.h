// Strong ids: a number with a type, so that two ids of different things cannot be mixed up.
// Values; used by every module, on any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lambent {

template <typename Tag, typename Number = uint32_t>
struct StrongId {
  Number value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Number number) : value(number) {}
  constexpr auto operator<=>(const StrongId&) const = default;
};

using TenantId = StrongId<struct TenantTag>;
// Dense: the catalog hands them out from 1 up, so that they may index an array.
using FunctionId = StrongId<struct FunctionTag>;
using DeviceId = StrongId<struct DeviceTag>;
using SandboxId = StrongId<struct SandboxTag, uint64_t>;

// 128 bits, shown as a UUID; what clients know as the request id.
struct InvocationId {
  uint64_t high = 0;
  uint64_t low = 0;

  constexpr auto operator<=>(const InvocationId&) const = default;
};

// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", lower case.
std::string to_string(InvocationId id);
std::optional<InvocationId> invocation_id_from_string(std::string_view text);

// An object: the invocation that made it and which of its outputs it is, so that it has its name
// before it exists. One that a client put has an id of its own as its maker.
struct ObjectId {
  InvocationId maker;
  uint32_t number = 0;

  constexpr auto operator<=>(const ObjectId&) const = default;
};

// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.0"; the number without leading zeros.
std::string to_string(ObjectId id);
std::optional<ObjectId> object_id_from_string(std::string_view text);

}  // namespace lambent

template <typename Tag, typename Number>
struct std::hash<lambent::StrongId<Tag, Number>> {
  size_t operator()(const lambent::StrongId<Tag, Number>& id) const noexcept {
    return std::hash<Number>()(id.value);
  }
};

template <>
struct std::hash<lambent::InvocationId> {
  size_t operator()(const lambent::InvocationId& id) const noexcept {
    return id.low ^ (id.high * 0x9e3779b97f4a7c15ULL);
  }
};

template <>
struct std::hash<lambent::ObjectId> {
  size_t operator()(const lambent::ObjectId& id) const noexcept {
    return std::hash<lambent::InvocationId>()(id.maker) + id.number * 0x9e3779b97f4a7c15ULL;
  }
};
