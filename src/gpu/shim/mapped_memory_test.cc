// Device memory that the shim maps by hand, or makes managed, over the emulated driver: what the
// program sees of it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/testing/testing.h"
#include "gpu/ledger/ledger.h"
#include "gpu/shim/testing/run.h"

namespace lambent::shim {
namespace {

class MappedMemory : public ::testing::Test {
 protected:
  MappedMemory() {
    environment_ = {{"LD_PRELOAD", SHIM_LIBRARY},
                    {"LD_LIBRARY_PATH", EMULATED_FOLDER},
                    {"LAMBENT_SHIM_DRIVER", EMULATED_FOLDER "/libcuda.so.1"},
                    {"LAMBENT_SHIM_LOG", folder_ / "log"},
                    {"LAMBENT_SHIM_LEDGER", folder_ / "ledger"},
                    {"LAMBENT_SHIM_MEMORY_MODE", "vmm"},
                    {"EMULATED_CUDA_NODE", folder_ / "node"},
                    {"EMULATED_CUDA_CONFIG", "tiny"}};
    auto reader = ledger::create_ledger(folder_ / "ledger", Bytes::mib(900));
    EXPECT_TRUE(reader.ok());
    reader_.emplace(std::move(reader).value());
  }
  Finished play(const std::string& scenario) {
    Finished run = lambent::shim::run({MAPPED_PROBE, scenario}, environment_);
    EXPECT_EQ(run.exit_code, 0) << run.output << log();
    return run;
  }
  std::string log() const {
    std::ifstream file(folder_ / "log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
  std::optional<ledger::LedgerReader> reader_;
};

// Mapped by hand or managed, the program sees the same.
class MovableMemory : public MappedMemory, public ::testing::WithParamInterface<const char*> {
 protected:
  MovableMemory() { environment_["LAMBENT_SHIM_MEMORY_MODE"] = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Shim, MovableMemory, ::testing::Values("vmm", "uvm"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(MovableMemory, TellsTheSizeThatWasAskedFor) {
  const Finished run = play("attributes");
  EXPECT_EQ(run.values.at("small"), "0:0:1000");
  EXPECT_EQ(run.values.at("small_last"), "0:999:1000");
  EXPECT_EQ(run.values.at("small_behind"), "500:0:0");
  EXPECT_EQ(run.values.at("large_inside"), "0:12345:3145733");
  EXPECT_EQ(run.values.at("large_behind"), "500:0:0");
  EXPECT_EQ(run.values.at("start"), "1");
  EXPECT_EQ(run.values.at("size"), "3145733");
}

TEST_P(MovableMemory, LooksLikePlainMemoryOfItsContext) {
  const Finished run = play("attributes");
  EXPECT_EQ(run.values.at("type"), "2");
  EXPECT_EQ(run.values.at("managed"), "0");
  EXPECT_EQ(run.values.at("ordinal"), "0");
  EXPECT_EQ(run.values.at("own_context"), "1");
  EXPECT_EQ(run.values.at("numbers_differ"), "1");
  EXPECT_EQ(run.values.at("nothing_there"), "1");
  EXPECT_EQ(run.values.at("many"), "0");
  EXPECT_EQ(run.values.at("many_answers"), "2:1:1000");
  EXPECT_EQ(run.values.at("many_nothing"), "0");
  EXPECT_EQ(run.values.at("many_nothing_answers"), "0:0");
}

TEST_P(MovableMemory, StaysInItsProcess) {
  const Finished run = play("attributes");
  EXPECT_EQ(run.values.at("legacy_ipc"), "0");
  EXPECT_EQ(run.values.at("ipc"), "801");
  EXPECT_NE(log().find("cuIpcGetMemHandle"), std::string::npos);
}

TEST_P(MovableMemory, NonsenseMeetsTheDriversOwnErrorsAndLosesNothing) {
  const Finished run = play("nonsense");
  for (const char* invalid :
       {"nothing", "nowhere", "odd_element", "interior", "interior_large", "foreign", "freed_twice",
        "small_freed_twice", "freed_twice_in_stream"}) {
    EXPECT_EQ(run.values.at(invalid), "1") << invalid;
  }
  EXPECT_EQ(run.values.at("petabyte"), "2");
  EXPECT_EQ(run.values.at("most"), "2");
  EXPECT_EQ(run.values.at("null"), "0");
  EXPECT_EQ(run.values.at("held"), "9") << "8 MiB and a little";
  EXPECT_EQ(run.values.at("left"), "0");
  EXPECT_EQ(run.values.at("no_context"), "201");
  EXPECT_EQ(reader_->read()->used, Bytes(0));
}

TEST_P(MovableMemory, StreamsFreeInTheirOrderAndMayHaveItBackAtOnce) {
  const Finished run = play("streams");
  for (const char* name :
       {"pool", "twice", "same_stream_same_place", "other_stream_other_place", "intact"}) {
    EXPECT_EQ(run.values.at(name), "1") << name;
    EXPECT_EQ(run.output.find(std::string(name) + " 0"), std::string::npos) << "for any size";
  }
  EXPECT_EQ(run.values.at("left"), "0");
}

TEST_P(MovableMemory, ACaptureIsNotSpoiltByFreesAndAllocations) {
  const Finished run = play("captures");
  EXPECT_EQ(run.values.at("in_graph"), "0");
  EXPECT_EQ(run.values.at("freed_meanwhile"), "0");
  EXPECT_EQ(run.values.at("allocated_meanwhile"), "0");
  EXPECT_EQ(run.values.at("capture"), "0");
  EXPECT_EQ(run.values.at("nodes"), "3") << "memory, a fill, and the free";
  EXPECT_EQ(run.values.at("freed_twice"), "1");
}

TEST_P(MovableMemory, GoesWithItsContext) {
  const Finished run = play("contexts");
  EXPECT_EQ(run.values.at("held"), "17");
  EXPECT_EQ(run.values.at("left"), "0");
}

TEST_P(MovableMemory, ThreadsNeverFindEachOthersBytes) {
  const Finished run = play("threads");
  EXPECT_EQ(run.values.at("broken"), "0");
  EXPECT_EQ(run.values.at("left"), "0");
}

TEST_P(MovableMemory, AFullDeviceIsOutOfMemoryUntilSomethingIsFreed) {
  environment_.erase("LAMBENT_SHIM_LEDGER");
  const Finished run = play("full");
  EXPECT_EQ(run.values.at("failures"), "0") << "what a stream frees makes room for the next";
  EXPECT_EQ(run.values.at("too_much"), "2");
  EXPECT_EQ(run.values.at("room_again"), "0");
}

TEST_P(MovableMemory, AForkedChildLeavesItsParentsMemoryAlone) {
  const Finished run = play("fork");
  EXPECT_EQ(run.values.at("child_frees"), "1");
  EXPECT_EQ(run.values.at("child_allocates"), "1") << "a child has no device";
  EXPECT_EQ(run.values.at("child"), "0");
  EXPECT_EQ(run.values.at("parent_frees"), "0");
}

TEST_F(MappedMemory, ManagedMoreThanTheDeviceHasIsRefusedUnlessItIsAllowed) {
  environment_.erase("LAMBENT_SHIM_LEDGER");
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  EXPECT_EQ(play("full").values.at("too_much"), "2");
  environment_["LAMBENT_SHIM_OVERSUBSCRIBE"] = "1";
  EXPECT_EQ(play("full").values.at("too_much"), "0");
}

TEST_F(MappedMemory, OfAnUnknownKindIsPlainMemoryAndALineInTheLog) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "magic";
  EXPECT_EQ(play("attributes").values.at("ipc"), "0");
  EXPECT_NE(log().find("magic"), std::string::npos);
}

TEST_F(MappedMemory, IsPlainMemoryWhereTheDeviceCannotMap) {
  environment_["LD_LIBRARY_PATH"] = FAKE_FOLDER;
  environment_["LAMBENT_SHIM_DRIVER"] = FAKE_FOLDER "/libcuda.so.1";
  const Finished run = lambent::shim::run({SHIM_PROBE, "linked", "limit"}, environment_);
  EXPECT_EQ(run.values.at("first"), "0");
  EXPECT_NE(log().find("cannot map"), std::string::npos);
}

}  // namespace
}  // namespace lambent::shim
