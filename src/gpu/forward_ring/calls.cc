#include "gpu/forward_ring/calls.h"

namespace lambent::forward_ring {
namespace {

struct Row {
  const char* name;
  Answered answered;
  uint32_t most_data_bytes;
};
constexpr auto kLater = Answered::kLater, kSlot = Answered::kSlot, kChunk = Answered::kChunk,
               kSlotChunk = Answered::kSlotChunk;
constexpr Row kRows[] = {
#define FORWARD_CALL(name, answered, most) {#name, answered, most},
#include "gpu/forward_ring/calls.inc"
#undef FORWARD_CALL
};
constexpr size_t kCodes = sizeof(kRows) / sizeof(kRows[0]);

const Row& row_of(CallCode code) { return kRows[static_cast<size_t>(code)]; }

bool has_chunk(Answered answered) { return answered == kChunk || answered == kSlotChunk; }
bool has_slot(Answered answered) { return answered == kSlot || answered == kSlotChunk; }

}  // namespace

const char* name_of(CallCode code) {
  return static_cast<size_t>(code) < kCodes ? row_of(code).name : "an unknown call";
}

Answered answered_how(CallCode code) { return row_of(code).answered; }

uint32_t chunk_argument(CallCode code) {
  if (code == CallCode::kUpload) return 0;
  return code == CallCode::kCopyIn || code == CallCode::kCopyOut ? 2 : 1;
}

bool is_well_formed(const Call& call) {
  if (call.code >= kCodes) return false;
  if (call.bytes < sizeof(Call)) return false;
  const auto code = static_cast<CallCode>(call.code);
  const Row& row = row_of(code);
  if (call.bytes - sizeof(Call) > row.most_data_bytes) return false;
  if (has_slot(row.answered) ? call.slot >= kAnswerSlots : call.slot != kNoSlot) return false;
  return !has_chunk(row.answered) || call.arguments[chunk_argument(code)] < kChunks;
}

}  // namespace lambent::forward_ring
