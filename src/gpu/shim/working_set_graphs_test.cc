// Working sets of programs that launch graphs, over the emulated driver: a launch counts as used,
// and fetches, what the nodes of the graph name at that time.
#include <stdlib.h>

#include <random>

#include "gpu/shim/testing/working_set_fixture.h"

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;

class WorkingSetGraphs : public WorkingSetMoves {
 protected:
  static void about_graphs(Tenant& tenant, const std::string& act, size_t piece) {
    ASSERT_EQ(tenant.ask(act + " " + std::to_string(piece), "graph"), "1") << act;
  }
  static void end(Tenant& tenant) {
    tenant.worker().hang_up();
    tenant.program().finish();
  }
};

TEST_F(WorkingSetGraphs, FetchWhatTheirKernelsName) {
  for (const char* way : {"captured", "kernel", "child"}) {
    SCOPED_TRACE(way);
    Tenant tenant = this->tenant();
    hold(tenant);
    about_graphs(tenant, std::string("make_") + way, 6);
    settle_on(tenant, 0);
    const long long before = free_mib();
    use(tenant, "graph", 6);
    EXPECT_EQ(free_mib(), before - static_cast<long long>(kPieceMiB));
    EXPECT_EQ(move(tenant), 2 * kPieceMiB) << "what was used recently";
    use(tenant, "graph", 6);
    EXPECT_EQ(move(tenant), kPieceMiB) << "the other was not used in the last two stays";
    expect_right(tenant);
    end(tenant);
  }
}

TEST_F(WorkingSetGraphs, CountWhatTheirCopiesReachOffloaded) {
  Tenant tenant = this->tenant();
  hold(tenant);
  about_graphs(tenant, "make_copy", 6);
  settle_on(tenant, 0);
  const long long before = free_mib();
  use(tenant, "graph", 6);
  EXPECT_EQ(free_mib(), before) << "they work on it where it is";
  EXPECT_EQ(move(tenant), 2 * kPieceMiB);
  expect_right(tenant);
}

// The driver refuses an executable graph memory that lies on the other side than before.
TEST_F(WorkingSetGraphs, MayBeChangedToCopyAndFillWhatIsOffloaded) {
  for (const char* way : {"copy", "fill"}) {
    SCOPED_TRACE(way);
    Tenant tenant = this->tenant();
    hold(tenant);
    about_graphs(tenant, std::string("make_") + way, 5);
    settle_on(tenant, 0);
    const long long before = free_mib();
    about_graphs(tenant, std::string("change_") + way, 6);
    EXPECT_EQ(free_mib(), before - static_cast<long long>(kPieceMiB)) << "it was fetched for that";
    use(tenant, "graph", 6);
    EXPECT_EQ(move(tenant), 2 * kPieceMiB);
    expect_right(tenant);
    end(tenant);
  }
}

// What lay where when a node was described, captured or changed makes no difference to the program.
TEST_F(WorkingSetGraphs, MayBeMadeAndChangedWhereverTheirMemoryLies) {
  for (const std::string kind : {"copy", "fill", "body"}) {
    for (const std::string make : {"make_", "capture_"}) {
      for (const std::string change : {"change_", "recapture_"}) {
        SCOPED_TRACE(make + ", " + change + kind);
        Tenant tenant = this->tenant();
        hold(tenant);
        about_graphs(tenant, make + kind, 5);
        settle_on(tenant, 0);
        about_graphs(tenant, change + kind, 5);
        use(tenant, "graph", 5);
        settle_on(tenant, 0);
        about_graphs(tenant, make + kind, 6);
        about_graphs(tenant, change + kind, 7);
        use(tenant, "graph", 7);
        move(tenant);
        about_graphs(tenant, change + kind, 6);
        use(tenant, "graph", 6);
        expect_right(tenant);
        end(tenant);
      }
    }
  }
}

TEST_F(WorkingSetGraphs, MayBeUpdatedToADescriptionThatIsOlderThanAMove) {
  Tenant tenant = this->tenant();
  hold(tenant);
  about_graphs(tenant, "make_copy", 5);
  settle_on(tenant, 0);
  about_graphs(tenant, "change_description", 6);
  use(tenant, "graph", 6);
  expect_right(tenant);
}

// A refusal holds for a second of real time.
TEST_F(WorkingSetGraphs, WaitForRoomWhereTheDriverLooksWhereMemoryLies) {
  constexpr uint64_t kPiece = kPieceMiB * kMiB;
  limit_to(Bytes(kPieces * kPiece));
  for (const char* change : {"change_copy 6", "recapture_copy 6"}) {
    SCOPED_TRACE(change);
    Tenant tenant = this->tenant();
    hold(tenant);
    about_graphs(tenant, "make_copy", 5);
    settle_on(tenant, 0);
    tenant.worker().set_grants(WorkerSide::Grants::kLater);
    tenant.program().tell(change);
    EXPECT_EQ(tenant.worker().wait_for_want(), kPiece);
    tenant.worker().grant(0);
    EXPECT_EQ(tenant.worker().wait_for_want(), kPiece);
    tenant.worker().grant(kPiece);
    EXPECT_EQ(tenant.hear("graph"), "1");
    use(tenant, "graph", 6);
    expect_right(tenant);
    end(tenant);
  }
}

TEST_F(WorkingSetGraphs, NameWhatTheyWereChangedToAndNothingElse) {
  const struct {
    const char* make;
    const char* change;
  } ways[] = {{"make_kernel", "change_kernel"}, {"make_kernel", "change_node"},
              {"make_kernel", "change_all"},    {"make_captured", "change_all"},
              {"make_child", "change_child"},   {"make_copy", "change_copy"},
              {"make_fill", "change_fill"}};
  for (const auto& way : ways) {
    SCOPED_TRACE(std::string(way.make) + ", " + way.change);
    Tenant tenant = this->tenant();
    hold(tenant);
    about_graphs(tenant, way.make, 5);
    about_graphs(tenant, way.change, 6);
    settle_on(tenant, 0);
    use(tenant, "graph", 6);
    EXPECT_EQ(move(tenant), 2 * kPieceMiB);
    use(tenant, "parameter", 0);
    about_graphs(tenant, way.change, 7);
    use(tenant, "graph", 7);
    EXPECT_EQ(move(tenant), 3 * kPieceMiB) << "in the middle of a stay as well";
    expect_right(tenant);
    end(tenant);
  }
}

TEST_F(WorkingSetGraphs, LeadToWhatIsInTheTablesThatTheyUpload) {
  Tenant tenant = this->tenant();
  hold(tenant);
  about_graphs(tenant, "make_table", 3);
  settle_on(tenant, 0);
  constexpr uint64_t kTableMiB = 2;  // the block of small allocations that it lies in
  use(tenant, "graph", 3);
  EXPECT_EQ(move(tenant), 2 * kPieceMiB + kTableMiB);
  use(tenant, "parameter", 0);
  use(tenant, "graph", 3);
  use(tenant, "graph", 4);
  EXPECT_EQ(move(tenant), 3 * kPieceMiB + kTableMiB) << "the table is read at every launch";
  expect_right(tenant);
}

TEST_F(WorkingSetGraphs, BringInEverythingWhereItIsNotKnownWhatTheyReach) {
  for (const char* act : {"make_host_function", "make_condition", "change_in_vain"}) {
    SCOPED_TRACE(act);
    Tenant tenant = this->tenant();
    hold(tenant);
    about_graphs(tenant, "make_kernel", 6);
    about_graphs(tenant, act, 6);
    settle_on(tenant, 0);
    EXPECT_EQ(tenant.ask("graph 6", "used"), "6") << "it is fetched, or reached on the host";
    EXPECT_EQ(move(tenant), kPieces * kPieceMiB);
    expect_right(tenant);
    end(tenant);
  }
}

TEST_F(WorkingSetGraphs, ThatWereMadeBeforeTheFirstMoveAreKnown) {
  Tenant tenant = this->tenant();
  hold(tenant);
  about_graphs(tenant, "make_kernel", 2);
  for (int stay = 0; stay < 3; ++stay) {
    use(tenant, "graph", 2);
    move(tenant);
  }
  use(tenant, "graph", 2);
  EXPECT_EQ(move(tenant), kPieceMiB);
  expect_right(tenant);
}

// Graphs that are made, changed and launched at any time between moves, among other work. Other
// seeds than these: WORKING_SET_SEED.
class WorkingSetGraphsAtRandom : public WorkingSetGraphs,
                                 public testing::WithParamInterface<unsigned> {};

TEST_P(WorkingSetGraphsAtRandom, KeepEveryByteWhateverIsLaunchedWhen) {
  const char* wish = getenv("WORKING_SET_SEED");
  const auto seed =
      wish == nullptr ? GetParam() : static_cast<unsigned>(strtoul(wish, nullptr, 10));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const struct {
    const char* make;
    const char* change;
  } ways[] = {{"make_captured", "change_all"}, {"make_kernel", "change_kernel"},
              {"make_kernel", "change_node"},  {"make_child", "change_child"},
              {"make_copy", "change_copy"},    {"make_fill", "change_fill"},
              {"make_copy", "recapture_copy"}, {"capture_fill", "recapture_fill"},
              {"make_table", nullptr},         {"make_host_function", "change_kernel"},
              {"make_condition", nullptr}};
  Tenant tenant = this->tenant();
  hold(tenant);
  ASSERT_EQ(tenant.ask("hold_bytes 4 70000", "held"), std::to_string(kPieces + 4));
  const auto any_piece = [&] { return random() % (random() % 4 == 0 ? kPieces + 4 : 3); };
  size_t piece = 0;
  const char* change = "change_kernel";
  about_graphs(tenant, "make_kernel", piece);
  bool is_out = false;
  for (int step = 0; step < 120; ++step) {
    const unsigned choice = random() % 10;
    if (choice < 3) {
      is_out = !is_out;
      const MemoryMessage answer = is_out ? tenant.worker().move_out() : tenant.worker().move_in();
      ASSERT_EQ(answer.status, 0U) << "step " << step;
    } else if (is_out) {
      continue;
    } else if (choice == 3) {
      const auto& way = ways[random() % std::size(ways)];
      piece = any_piece();
      change = way.change;
      about_graphs(tenant, way.make, piece);
    } else if (choice == 4 && change != nullptr) {
      piece = any_piece();
      about_graphs(tenant, change, piece);
    } else if (choice < 8) {
      use(tenant, "graph", piece);
    } else {
      use(tenant, "parameter", any_piece());
    }
  }
  EXPECT_EQ(tenant.worker().move_in().status, 0U);
  expect_right(tenant);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WorkingSetGraphsAtRandom, testing::Values(1, 2, 3));

}  // namespace
}  // namespace lambent::shim
