// What the bench paper-mqfq takes the paper's world to be: one V100 and what its memory, link and
// containers cost, each with its source, and the place that policies share. Values.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/base/units.h"
#include "decide/scheduling/device_concurrency.h"
#include "decide/scheduling/hybrid.h"

namespace lambent::paper_mqfq {

// Whether invocations are on the device all the time, or on host, link and device by turns, as the
// catalogue has it; and how kernels share the device then.
enum class Phased { kNo, kTurns, kSideBySide };

// What a ratio rests on beside Table 1's times. The sources are in inputs().
struct Constants {
  double memory_scale = 1;           // on the catalogue's memory of each function
  double memory_each_mib = 0;        // of every function, instead of the catalogue's; 0: those
  double cold_scale = 1;             // on what a cold start adds to a warm one, by Table 1
  double link_gb_per_s = 12;         // onto the device, and as fast off it
  double slowdown = 0.2;             // two at once take 1.2 times as long each
  Phased phased = Phased::kNo;       // then `slowdown` is that of kernels
  double kernel_scale = 1;           // on the catalogue's kernel times
  double utilisation_average_s = 0;  // over which readings of D by utilisation are smoothed
  bool starts_contend = false;       // whether a container that starts counts among those at work
  double context_mib = 307;          // of a container, beside its function's memory; never moves
  double device_memory_mib = 16160;  // of a V100-16GB
  double sandbox_ms = 5;             // of a cold start, before what Table 1 has
  double stop_ms = 10;               // until a stopped container is gone
  double spread = 0.05;              // execution times vary uniformly by this share, up and down
  double fault_share = 0.3;          // of the link, what page faults reach (Figure 4)
};

struct Input {
  const char* name;
  double Constants::*value;
  const char* source;
  bool guess;
};
std::span<const Input> inputs();

// What all policies of a comparison have alike.
struct Site {
  unsigned gpus = 1;
  unsigned tokens = 2;  // D of each
  unsigned pool = 16;   // containers on all of them together
  // D by utilisation instead.
  std::optional<scheduling::UtilisationOptions> by_utilisation;
  // Every function may run on the host's kHostCores too, by this rule.
  std::optional<scheduling::HybridOptions> host;
};
constexpr unsigned kHostCores = 48;  // of the paper's machine; modelled
// "1 GPU, D 2, pool 16".
std::string name_of(const Site& site);

}  // namespace lambent::paper_mqfq
