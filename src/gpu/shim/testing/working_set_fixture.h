// What the tests of working sets share: a program with several pieces of device memory, of which it
// uses the one that it is told to, and moves that bring in some of them.
#pragma once

#include <filesystem>

#include "gpu/shim/testing/moves_fixture.h"

namespace lambent::shim {

// Where the build put them; defined in working_set_moves_test.cc.
extern const char* const kWorkingSetProbe;
extern const char* const kWorkingSetKernels;

constexpr uint64_t kPieces = 8;
constexpr uint64_t kPieceMiB = 4;

class WorkingSetMoves : public Moves {
 protected:
  WorkingSetMoves() {
    environment_["LAMBENT_SHIM_WORKING_SET"] = "touched";
    environment_["WORKING_SET_KERNELS"] = kWorkingSetKernels;
  }

  Tenant tenant() { return Tenant(environment_, listener_, kWorkingSetProbe); }
  static void hold(Tenant& tenant) {
    const std::string act = "hold " + std::to_string(kPieces) + " " + std::to_string(kPieceMiB);
    ASSERT_EQ(tenant.ask(act, "held"), std::to_string(kPieces));
  }
  static void use(Tenant& tenant, const std::string& way, size_t piece) {
    EXPECT_EQ(tenant.ask(way + " " + std::to_string(piece), "used"), std::to_string(piece)) << way;
  }
  // Out and in again: the number of bytes that came in.
  static uint64_t move(Tenant& tenant) {
    EXPECT_EQ(tenant.worker().move_out().status, 0U);
    const protocol::MemoryMessage in = tenant.worker().move_in();
    EXPECT_EQ(in.status, 0U);
    return in.bytes / kMiB;
  }
  // Until nothing but this piece has been used in as many stays as are remembered.
  static void settle_on(Tenant& tenant, size_t piece) {
    for (int stay = 0; stay < 3; ++stay) {
      use(tenant, "parameter", piece);
      move(tenant);
    }
  }
  // Instead of a limit that is never met. Before the tenant.
  void limit_to(Bytes limit) {
    std::filesystem::remove(folder_ / "ledger");
    auto reader = ledger::create_ledger(folder_ / "ledger", limit);
    ASSERT_TRUE(reader.ok());
    reader_.emplace(std::move(reader).value());
  }
  static void expect_right(Tenant& tenant) { EXPECT_EQ(tenant.ask("check", "broken"), "0"); }
};

}  // namespace lambent::shim
