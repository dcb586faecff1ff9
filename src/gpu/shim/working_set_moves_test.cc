// Moves that bring in only what the program has used recently, over the emulated driver: what else
// there is is offloaded, on the host, and every way of reaching it finds it.
#include <random>

#include "gpu/shim/testing/working_set_fixture.h"

namespace lambent::shim {

const char* const kWorkingSetProbe = WORKING_SET_PROBE;
const char* const kWorkingSetKernels = WORKING_SET_KERNELS;

namespace {

using protocol::MemoryMessage;

TEST_F(WorkingSetMoves, BringInWhatWasUsedAlone) {
  Tenant tenant = this->tenant();
  hold(tenant);
  const long long whole = free_mib();
  EXPECT_EQ(move(tenant), kPieces * kPieceMiB) << "it has filled all of it";
  use(tenant, "parameter", 2);
  EXPECT_EQ(move(tenant), kPieces * kPieceMiB) << "and that is remembered for another stay";
  use(tenant, "parameter", 2);
  EXPECT_EQ(tenant.worker().move_out().bytes, kPieces * kPieceMiB * kMiB);
  const MemoryMessage in = tenant.worker().move_in();
  EXPECT_EQ(in.bytes, kPieceMiB * kMiB);
  EXPECT_EQ(in.offloaded_bytes, (kPieces - 1) * kPieceMiB * kMiB);
  EXPECT_EQ(free_mib(), whole + static_cast<long long>((kPieces - 1) * kPieceMiB));
  use(tenant, "parameter", 2);
  EXPECT_EQ(tenant.worker().move_out().bytes, kPieceMiB * kMiB) << "the rest is there already";
  EXPECT_EQ(tenant.worker().move_in().bytes, kPieceMiB * kMiB);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, BringInEverythingUnlessToldOtherwise) {
  environment_.erase("LAMBENT_SHIM_WORKING_SET");
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 2);
  use(tenant, "parameter", 2);
  EXPECT_EQ(move(tenant), kPieces * kPieceMiB);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, FetchWhatAKernelNamesHoweverItNamesIt) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  size_t piece = 1;
  for (const char* way : {"parameter", "structure", "buffer"}) {
    const long long before = free_mib();
    use(tenant, way, piece++);
    EXPECT_EQ(free_mib(), before - static_cast<long long>(kPieceMiB)) << way;
  }
  use(tenant, "parameter", 0);
  EXPECT_EQ(move(tenant), 4 * kPieceMiB) << "these are used now";
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, LetCopiesReachWhatIsOffloaded) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  const long long before = free_mib();
  use(tenant, "copies", 5);
  EXPECT_EQ(free_mib(), before) << "they go to the host anyway";
  use(tenant, "parameter", 0);
  EXPECT_EQ(move(tenant), 2 * kPieceMiB) << "but it is used, and comes in with the rest";
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, KeepWhatTheProgramHasWrittenAddressesOf) {
  for (const char* way : {"write_table", "copy_table", "stream_table"}) {
    SCOPED_TRACE(way);
    Tenant tenant = this->tenant();
    hold(tenant);
    ASSERT_EQ(tenant.ask(way, "written"), "1");
    settle_on(tenant, 0);
    use(tenant, "written_table", 3);
    EXPECT_GE(move(tenant), kPieces * kPieceMiB) << "a kernel may find each of them";
    expect_right(tenant);
    tenant.worker().hang_up();
    tenant.program().finish();
  }
}

TEST_F(WorkingSetMoves, LeaveItToTheDriverToRefuseWhatCannotBeRead) {
  std::string said;
  for (const char* set : {"whole", "touched"}) {
    environment_["LAMBENT_SHIM_WORKING_SET"] = set;
    Tenant tenant = this->tenant();
    hold(tenant);
    move(tenant);  // from then on calls are looked at
    const std::string refused = tenant.ask("upload_from_nowhere", "refused");
    if (said.empty()) said = refused;
    EXPECT_EQ(refused, said) << set;
    tenant.worker().hang_up();
    tenant.program().finish();
  }
  EXPECT_NE(said, "0");
}

TEST_F(WorkingSetMoves, MoveNothingUnderTheWorkOfAnotherContext) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  ASSERT_EQ(tenant.ask("other_waits", "waits"), "1");
  const long long before = free_mib();
  use(tenant, "parameter", 1);
  EXPECT_EQ(free_mib(), before) << "it may be what the other context works on";
  ASSERT_EQ(tenant.ask("other_goes_on", "goes_on"), "1");
  use(tenant, "parameter", 2);
  EXPECT_EQ(free_mib(), before) << "it is not tried again in this stay";
  use(tenant, "parameter", 0);
  EXPECT_GE(move(tenant), 3 * kPieceMiB);
  EXPECT_LT(free_mib(), before);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, LoseNothingWhereMemoryCannotBeMappedOnTheOtherSide) {
  // Calls while memory is offloaded: first each piece's new memory is opened, then each address.
  for (int call = 18; call <= 22; ++call) {
    SCOPED_TRACE("call " + std::to_string(call));
    environment_["EMULATED_CUDA_FAULTS"] =
        "fail cuMemSetAccess call " + std::to_string(call) + " with CUDA_ERROR_OUT_OF_MEMORY";
    Tenant tenant = this->tenant();
    hold(tenant);
    settle_on(tenant, 0);
    use(tenant, "parameter", 3);
    expect_right(tenant);
    tenant.worker().hang_up();
    tenant.program().finish();
  }
}

TEST_F(WorkingSetMoves, FetchEverythingAfterAFewFetches) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  const long long before = free_mib();
  for (size_t piece = 1; piece <= 4; ++piece) use(tenant, "parameter", piece);
  EXPECT_EQ(free_mib(), before - static_cast<long long>(4 * kPieceMiB));
  use(tenant, "parameter", 5);
  EXPECT_EQ(free_mib(), before - static_cast<long long>((kPieces - 1) * kPieceMiB));
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, LetKernelsReachOffloadedWhatNoCallEverNamed) {
  Tenant tenant = this->tenant();
  hold(tenant);
  ASSERT_EQ(tenant.ask("store_table", "stored"), "1");
  for (int turn = 0; turn < 6; ++turn) {
    for (size_t piece = 0; piece < kPieces; ++piece) use(tenant, "stored_table", piece);
    const MemoryMessage out = tenant.worker().move_out();
    const MemoryMessage in = tenant.worker().move_in();
    EXPECT_EQ(out.status + in.status, 0U);
    EXPECT_EQ(in.offloaded_bytes, turn < 2 ? 0 : kPieces * kPieceMiB * kMiB);
  }
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, GoOnOffloadedWhereTheDeviceIsFull) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  std::map<std::string, std::string> plain = environment_;
  plain.erase("LD_PRELOAD");
  Running other({kMovingProbe}, plain);
  other.tell("take_all_but 2");
  ASSERT_TRUE(other.wait_for("took"));
  use(tenant, "parameter", 4);
  use(tenant, "parameter", 4);
  other.tell("give_back");
  ASSERT_TRUE(other.wait_for("gave"));
  use(tenant, "parameter", 0);
  EXPECT_EQ(move(tenant), 2 * kPieceMiB) << "it comes in as soon as there is room";
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, TakeNoMoreHostMemoryThanTheWhole) {
  const uint64_t whole = kPieces * kPieceMiB * kMiB;
  const auto device = this->device({.budget = whole});
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  EXPECT_EQ(device->leased_bytes(), kPieceMiB * kMiB);
  EXPECT_EQ(device->offloaded_bytes_once(whole - kPieceMiB * kMiB), whole - kPieceMiB * kMiB);
  use(tenant, "parameter", 3);
  use(tenant, "parameter", 0);
  const uint64_t left = whole - 2 * kPieceMiB * kMiB;
  EXPECT_EQ(device->offloaded_bytes_once(left), left) << "one was fetched";
  EXPECT_EQ(move(tenant), 2 * kPieceMiB);
  EXPECT_EQ(device->offloaded_bytes_once(left), left);
  EXPECT_EQ(device->leased_bytes(), whole - left);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, GoWholeWhereTheHostHasNothingToPutItIn) {
  const uint64_t whole = kPieces * kPieceMiB * kMiB;
  const auto device = this->device({.grants_offloaded_pieces = false});
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  use(tenant, "parameter", 0);
  EXPECT_EQ(move(tenant), kPieces * kPieceMiB);
  EXPECT_EQ(device->leased_bytes(), whole);
  const int leases = device->leases();
  for (int stay = 0; stay < 3; ++stay) {
    use(tenant, "parameter", 0);
    move(tenant);
  }
  EXPECT_EQ(device->leases(), leases) << "they are kept from then on";
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, GiveBackTheBudgetOfWhatWasFreedOffloaded) {
  const uint64_t whole = kPieces * kPieceMiB * kMiB;
  const auto device = this->device({.budget = whole});
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  ASSERT_EQ(device->offloaded_bytes_once(whole - kPieceMiB * kMiB), whole - kPieceMiB * kMiB);
  for (size_t left = kPieces; left > 1; --left) {
    ASSERT_EQ(tenant.ask("free 1", "freed"), "1");
  }
  ASSERT_EQ(tenant.ask("hold 7 4", "held"), std::to_string(kPieces));
  EXPECT_EQ(move(tenant), kPieces * kPieceMiB) << "there is room for all of it";
  EXPECT_EQ(device->offloaded_bytes_once(0), 0U);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, FreeWhatIsOffloaded) {
  Tenant tenant = this->tenant();
  ASSERT_EQ(tenant.hear("ready"), "1") << "from then on its modules take room";
  const long long before = free_mib();
  hold(tenant);
  settle_on(tenant, 0);
  for (size_t left = kPieces; left > 1; --left) {
    EXPECT_EQ(tenant.ask("free 1", "freed"), "1");
  }
  EXPECT_EQ(tenant.ask("free 0", "freed"), "0");
  EXPECT_EQ(free_mib(), before);
  EXPECT_EQ(reader_->read()->used, Bytes(0));
}

TEST_F(WorkingSetMoves, LeaveItReachableWhenTheWorkerIsGone) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  EXPECT_EQ(tenant.worker().move_out().status, 0U);
  tenant.worker().hang_up();
  for (size_t piece = 0; piece < kPieces; ++piece) use(tenant, "parameter", piece);
  expect_right(tenant);
}

TEST_F(WorkingSetMoves, TakeTheContextTooAndComeBack) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(tenant.worker().move_out_with_context().status, 0U);
    const MemoryMessage in = tenant.worker().move_in();
    EXPECT_EQ(in.status, 0U);
    EXPECT_GE(in.offloaded_bytes, (kPieces - 2) * kPieceMiB * kMiB);
    use(tenant, "parameter", 3);
  }
  expect_right(tenant);
}

// Every way of using memory, at any time between moves, with pieces that come and go.
TEST_F(WorkingSetMoves, KeepEveryByteWhateverIsUsedWhen) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto device = this->device({});
  Tenant tenant = this->tenant();
  ASSERT_EQ(tenant.ask("hold 2 4", "held"), "2");
  ASSERT_EQ(tenant.ask("write_table", "written"), "1");
  ASSERT_EQ(tenant.ask("hold 6 4", "held"), std::to_string(kPieces));
  ASSERT_EQ(tenant.ask("hold_bytes 6 70000", "held"), std::to_string(kPieces + 6));
  ASSERT_EQ(tenant.ask("store_table", "stored"), "1");
  size_t pieces = kPieces + 6;
  const size_t in_tables = pieces;
  const char* const ways[] = {"parameter", "structure",    "buffer",
                              "copies",    "stored_table", "written_table"};
  bool is_out = false;
  for (int step = 0; step < 120; ++step) {
    const unsigned choice = random() % 10;
    if (choice < 3) {
      is_out = !is_out;
      const MemoryMessage answer = is_out ? tenant.worker().move_out() : tenant.worker().move_in();
      ASSERT_EQ(answer.status, 0U) << "step " << step;
    } else if (!is_out && choice == 3 && pieces < 20) {
      ASSERT_EQ(tenant.ask("hold 1 2", "held"), std::to_string(++pieces));
    } else if (!is_out && choice == 4 && pieces > in_tables) {
      ASSERT_EQ(tenant.ask("free " + std::to_string(pieces - 1), "freed"),
                std::to_string(pieces - 1));
      --pieces;
    } else if (!is_out) {
      const char* way = ways[random() % 6];
      const bool by_table = std::string(way).ends_with("table");
      // Few are used often, so that others are offloaded.
      const size_t most = by_table ? in_tables : pieces;
      const bool is_written = std::string(way) == "written_table";
      use(tenant, way, random() % (is_written ? 2 : random() % 4 == 0 ? most : 3));
    }
  }
  EXPECT_EQ(tenant.worker().move_in().status, 0U);
  settle_on(tenant, 2);
  const uint64_t offloaded = device->offloaded_bytes();
  EXPECT_GT(offloaded, 0U);
  use(tenant, "parameter", 7);
  EXPECT_TRUE(comes_true([&] { return device->offloaded_bytes() < offloaded; }));
  expect_right(tenant);
  tenant.worker().hang_up();
  tenant.program().finish();
  EXPECT_TRUE(comes_true([&] { return device->turns_out() == 0; }));
}

}  // namespace
}  // namespace lambent::shim
