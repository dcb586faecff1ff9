#include "gpu/shim/named_memory.h"

namespace lambent::shim {

using device_memory::Block;

bool NamedMemory::touch(Address address) {
  auto table = table_.hold();
  Block* block = table->blocks().containing(address);
  if (block == nullptr) return false;
  table->working_set.touch(block);
  return block->is_offloaded && table->working_set.may_fetch();
}

bool NamedMemory::note_access(Address address) {
  auto table = table_.hold();
  Block* block = table->blocks().containing(address);
  if (block == nullptr) return false;
  table->working_set.touch(block);
  return block->is_offloaded;
}

void NamedMemory::note_reference(Address address) {
  auto table = table_.hold();
  Block* block = table->blocks().containing(address);
  if (block != nullptr) table->working_set.note_reference(block);
}

void NamedMemory::touch_anything() { table_.hold()->working_set.touch_anything(); }

uint64_t NamedMemory::changes() { return table_.hold()->working_set.changes(); }

bool NamedMemory::can_have_offload() { return table_.hold()->working_set.can_have_offload(); }

void NamedMemory::want_fetch() { table_.hold()->working_set.want_fetch(); }

void NamedMemory::count_fetch() { table_.hold()->working_set.count_fetch(); }

void NamedMemory::refuse_fetches() { table_.hold()->working_set.refuse_fetches(); }

bool NamedMemory::may_retry() { return table_.hold()->working_set.may_retry(); }

void NamedMemory::give_up_retrying() { table_.hold()->working_set.give_up(); }

}  // namespace lambent::shim
