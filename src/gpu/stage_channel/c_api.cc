#include "gpu/stage_channel/c_api.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/stage_channel/receiver.h"
#include "gpu/stage_channel/sender.h"

using lambent::stage_channel::Arrival;
using lambent::stage_channel::Entry;
using lambent::stage_channel::ErrorText;
using lambent::stage_channel::kMostEntries;
using lambent::stage_channel::Outgoing;
using lambent::stage_channel::Receiver;
using lambent::stage_channel::Sender;
using lambent::stage_channel::Status;

// One of the two: this library lives without the C++ library, and so without its operator new.
struct lambent_stage_end {
  bool is_sender;
  union {
    Sender sender;
    Receiver receiver;
  };
  Outgoing outgoing[kMostEntries];
  lambent_stage_value values[kMostEntries];

  explicit lambent_stage_end(bool sends) : is_sender(sends) {
    if (sends) {
      ::new (&sender) Sender();
    } else {
      ::new (&receiver) Receiver();
    }
  }
  ~lambent_stage_end() {
    if (is_sender) {
      sender.~Sender();
    } else {
      receiver.~Receiver();
    }
  }
};

namespace {

void say(const char* why, char* error, uint64_t error_bytes) {
  if (error != nullptr && error_bytes > 0) {
    std::snprintf(error, error_bytes, "%s", why);
  }
}

lambent_stage_value value_of(const Entry& entry) {
  lambent_stage_value value = {};
  value.request = entry.request;
  value.kind = entry.kind;
  value.datatype = entry.datatype;
  value.container = entry.container;
  value.dimension_count = entry.dimension_count;
  std::memcpy(value.dimensions, entry.dimensions, sizeof(value.dimensions));
  value.bytes = entry.bytes;
  return value;
}

Outgoing outgoing_of(const lambent_stage_value& value) {
  Outgoing outgoing;
  outgoing.entry.request = value.request;
  outgoing.entry.kind = value.kind;
  outgoing.entry.datatype = value.datatype;
  outgoing.entry.container = value.container;
  outgoing.entry.dimension_count = value.dimension_count;
  std::memcpy(outgoing.entry.dimensions, value.dimensions, sizeof(value.dimensions));
  outgoing.entry.bytes = value.bytes;
  outgoing.address = value.address;
  outgoing.on_device = value.on_device != 0;
  return outgoing;
}

}  // namespace

int lambent_stage_create(const char* path, uint32_t slots, uint64_t slot_bytes, uint32_t mode,
                         char* error, uint64_t error_bytes) {
  ErrorText why;
  const Status status = lambent::stage_channel::create_channel(path, slots, slot_bytes, mode, why);
  say(why.text, error, error_bytes);
  return static_cast<int>(status);
}

int lambent_stage_end_channel(const char* path, char* error, uint64_t error_bytes) {
  ErrorText why;
  const Status status = lambent::stage_channel::end_channel(path, why);
  say(why.text, error, error_bytes);
  return static_cast<int>(status);
}

lambent_stage_end* lambent_stage_open(const char* path, int is_sender, char* error,
                                      uint64_t error_bytes) {
  void* memory = std::malloc(sizeof(lambent_stage_end));
  if (memory == nullptr) {
    say("no memory for an end of a channel", error, error_bytes);
    return nullptr;
  }
  auto* end = ::new (memory) lambent_stage_end(is_sender != 0);
  const Status status = is_sender ? end->sender.open(path) : end->receiver.open(path);
  if (status == Status::kDone) return end;
  say(lambent_stage_error(end), error, error_bytes);
  lambent_stage_close(end);
  return nullptr;
}

void lambent_stage_close(lambent_stage_end* end) {
  if (end == nullptr) return;
  end->~lambent_stage_end();
  std::free(end);
}

const char* lambent_stage_error(const lambent_stage_end* end) {
  return end->is_sender ? end->sender.error() : end->receiver.error();
}

const char* lambent_stage_note(const lambent_stage_end* end) {
  return end->is_sender ? end->sender.note() : end->receiver.note();
}

uint64_t lambent_stage_slot_bytes(const lambent_stage_end* end) {
  return end->is_sender ? end->sender.slot_bytes() : end->receiver.slot_bytes();
}

int lambent_stage_send(lambent_stage_end* end, uint64_t job, uint32_t requests,
                       const lambent_stage_value* values, uint32_t count, uint64_t stream,
                       int64_t timeout_ms) {
  if (!end->is_sender) return LAMBENT_STAGE_INVALID;
  // send() refuses more than may be before it looks at them.
  const uint32_t looked_at = count > kMostEntries ? kMostEntries : count;
  for (uint32_t i = 0; i < looked_at; ++i) end->outgoing[i] = outgoing_of(values[i]);
  return static_cast<int>(
      end->sender.send(job, requests, end->outgoing, count, stream, timeout_ms));
}

int lambent_stage_receive(lambent_stage_end* end, uint64_t* job, uint32_t* requests,
                          const lambent_stage_value** values, uint32_t* count, int64_t timeout_ms) {
  if (end->is_sender) return LAMBENT_STAGE_INVALID;
  const Status status = end->receiver.receive(timeout_ms);
  if (status != Status::kDone) return static_cast<int>(status);
  const Arrival& arrival = end->receiver.arrival();
  for (uint32_t i = 0; i < arrival.entries; ++i) end->values[i] = value_of(arrival.entry[i]);
  *job = arrival.job;
  *requests = arrival.requests;
  *values = end->values;
  *count = arrival.entries;
  return LAMBENT_STAGE_DONE;
}

int lambent_stage_take(lambent_stage_end* end, uint32_t index, uint64_t address, int on_device,
                       uint64_t stream, int64_t timeout_ms) {
  if (end->is_sender) return LAMBENT_STAGE_INVALID;
  return static_cast<int>(end->receiver.take(index, address, on_device != 0, stream, timeout_ms));
}

int lambent_stage_release(lambent_stage_end* end) {
  if (end->is_sender) return LAMBENT_STAGE_INVALID;
  return static_cast<int>(end->receiver.release());
}
