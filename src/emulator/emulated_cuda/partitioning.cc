#include "emulator/emulated_cuda/partitioning.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kMpsGroup = 1;  // generations begin at 1, so no context has this number

}  // namespace

std::map<int, uint64_t> parse_memory_limits(std::string_view text) {
  std::map<int, uint64_t> limits;
  std::istringstream list{std::string(text)};
  for (std::string entry; std::getline(list, entry, ',');) {
    int ordinal = -1;
    unsigned long long amount = 0;
    char unit[3] = "";
    if (std::sscanf(entry.c_str(), "%d=%llu%2s", &ordinal, &amount, unit) < 2) continue;
    int shift = unit[0] == 'G' ? 30 : unit[0] == 'M' ? 20 : unit[0] == 'K' ? 10 : 0;
    if (ordinal >= 0 && amount < (uint64_t{1} << 30)) limits[ordinal] = uint64_t{amount} << shift;
  }
  return limits;
}

MpsClient mps_client(const Settings& settings) {
  MpsClient client;
  client.active = true;
  char* end = nullptr;
  double percentage = std::strtod(settings.mps_percentage.c_str(), &end);
  if (end != settings.mps_percentage.c_str() && percentage > 0 && percentage <= 100) {
    client.percentage = std::max(1, static_cast<int>(percentage));
  }
  client.most_bytes = parse_memory_limits(settings.mps_memory_limit);
  if (settings.mps_priority == "1") client.priority = 1;
  return client;
}

int mps_limit(const MpsClient& client, int multiprocessors) {
  if (!client.active || client.percentage >= 100) return 0;
  return std::max(1, (multiprocessors * client.percentage + 99) / 100);
}

const Context* root_of(const Context& context) {
  return context.root ? context.root.get() : &context;
}

bool same_root(const Process& process, const void* one, const void* other) {
  if (one == other) return true;
  auto first = process.contexts.find(one), second = process.contexts.find(other);
  return first && second && root_of(*first) == root_of(*second);
}

void confine(const Process& process, const Context& context, KernelDemand* demand) {
  uint64_t own = process.generation << 20;
  demand->group = process.mps.active ? kMpsGroup : own + root_of(context)->id;
  demand->allowed = context.members;
  demand->client = own;
  demand->limit =
      static_cast<uint32_t>(mps_limit(process.mps, process.spec(context.device).multiprocessors));
  if (context.affinity > 0) {
    demand->client = own + context.id;
    demand->limit = static_cast<uint32_t>(context.affinity);
  }
  if (process.mps.priority > 0) demand->priority += kBelowNormalPriority;
}

std::vector<CompletionPtr> ends_of(Context& context) {
  std::vector<CompletionPtr> ends;
  const MutexLock lock(context.order);
  if (auto end = context.legacy->last()) ends.push_back(end);
  for (const auto& weak : context.streams) {
    auto stream = weak.lock();
    if (auto end = stream ? stream->last() : nullptr) ends.push_back(end);
  }
  return ends;
}

}  // namespace lambent::emulated_cuda
