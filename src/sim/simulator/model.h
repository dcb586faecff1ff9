// What the simulator takes the world to be: constants of devices and functions. Values, given by
// those who run a simulation; nothing here was measured unless they say so.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/dispatch/event.h"
#include "sim/simulator/modelled_device.h"

namespace lambent::simulator {

// What a run does one after the other, in each of its rounds: shares of its time on the host and in
// kernels, and bytes over the link, which it shares with memory that moves.
struct PhaseModel {
  double host = 0, kernels = 0;  // of FunctionModel::execution, over all rounds
  Bytes copy_in, copy_out;       // the same
  uint32_t rounds = 0;           // 0: no phases, it is on the device all the time
  double occupancy = 1;          // of the device, by its kernels
};

struct FunctionModel {
  dispatch::FunctionProfile profile;  // as it is registered
  Duration execution{};               // of the handler, by itself on the device, memory in place
  double spread = 0;                  // execution varies uniformly by this share, up and down
  Duration sandbox_time{};            // a cold start is sandbox_time + init_time
  Duration init_time{};
  // The same of its CPU variant, where the profile has one: on a core of its own.
  Duration host_execution{};
  Duration host_init_time{};
  // What every start brings onto the device over its link, after that: its constants.
  Bytes constants;
  // A kernel function: what it has on the device besides constants is worth nothing between two
  // runs, and these are on the host as well. Moving out costs nothing, moving in the constants.
  bool is_kernel = false;
  PhaseModel phases = {};
};

struct DeviceModel {
  // With n at work each takes 1 + slowdown * (n - 1) times as long. The default is a guess.
  double slowdown = 0.2;
  // Where it was measured: [n - 1] is that factor for n at work. More than were measured: as one
  // more made it grow at the end. Empty: by slowdown.
  std::vector<double> contention;
  // How those at work share the device. Of runs with phases, those at work are those in kernels.
  Sharing sharing = Sharing::kTurns;
  bool starts_contend = false;  // whether sandboxes that start count among the n
  // Memory that moves shares the device's link with all that moves the same way, in equal parts;
  // the two ways do not slow each other down. A guess for PCIe 3 with pinned memory.
  double link_bytes_per_second = 10e9;      // onto the device
  double link_out_bytes_per_second = 10e9;  // off it
  // The first move of a sandbox off its device takes so much longer, as memory of the host is made
  // for it, which it keeps.
  double first_out_seconds_per_gib = 0;
  Bytes stays;  // of a sandbox's memory, what a move out leaves behind: its context
  // Of the memory that moved out, the share that comes in again: what programs use. The rest is
  // offloaded.
  double touched = 1;
  // The share of an execution before it first needs the device: of a run whose memory is on its
  // way so much goes on meanwhile.
  double host_share = 0;
  // Whether the policy's move-off after a run holds the token until it is done.
  bool move_off_holds_token = false;
  // Of each run, beyond its execution: its sandbox hears of it, and is heard. It holds its token
  // meanwhile, but runs beside no other.
  Duration run_overhead{};
  Duration stop_time = milliseconds(10);        // from StopSandbox until the sandbox is gone
  Duration reading_period = milliseconds(200);  // of utilisation, where D depends on it
  Duration utilisation_average{};               // over which it is smoothed; zero: not at all
};

// What goes wrong, by chance; all zero: nothing.
struct FaultModel {
  double start_fails = 0;   // the platform cannot start a sandbox
  double init_crashes = 0;  // the function's code crashes before it asks for work
  double start_hangs = 0;   // a sandbox never asks for work
  double crashes = 0;       // a run ends with the sandbox gone
  double hangs = 0;         // a run never ends
  double handler_errors = 0;
};

}  // namespace lambent::simulator
