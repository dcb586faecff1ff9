#include "gpu/monitor/driver_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"

namespace lambent::monitor {
namespace {

// A program in the driver's stead.
std::string program_that(const TemporaryFolder& folder, const std::string& does) {
  const std::string path = folder / "program";
  std::ofstream(path) << "#!/bin/sh\n" << does << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

const std::vector<DriverFacts> kTwo = {{"GPU-1", true, Bytes::gib(120)},
                                       {"GPU-2", false, Bytes::gib(16)}};

TEST(DriverFacts, ComeBackAsTheyWere) { EXPECT_EQ(driver_facts_from(to_text(kTwo)), kTwo); }

TEST(DriverFacts, LeaveOutWhatIsNoLineOfTheirs) {
  const std::string text =
      "warning: old driver\nGPU-3 shared 5\nGPU-4 discrete many\n"
      "GPU-5 discrete 5 more\n";
  EXPECT_EQ(driver_facts_from(text + to_text(kTwo) + "GPU-"), kTwo);
  EXPECT_TRUE(driver_facts_from("").empty());
}

TEST(DriverFacts, AreThoseOfTheDeviceByItsNameOrOfTheOnlyOne) {
  EXPECT_EQ(facts_of(kTwo, "GPU-2", 2), &kTwo[1]);
  EXPECT_EQ(facts_of(kTwo, "GPU-3", 2), nullptr);
  const std::vector<DriverFacts> one = {kTwo[0]};
  EXPECT_EQ(facts_of(one, "called otherwise by NVML", 1), &one[0]);
  EXPECT_EQ(facts_of(one, "GPU-3", 2), nullptr) << "it may be either";
}

TEST(DriverFacts, AreAskedOfAProcessThatFindsTheDriver) {
  const TemporaryFolder folder;
  const std::string program = program_that(
      folder, "[ \"$1\" = --describe-driver ] && echo \"GPU-$LD_LIBRARY_PATH integrated 5\"");
  const auto facts = ask_driver(program, "/driver", seconds(10));
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_TRUE(facts[0].uuid.starts_with("GPU-/driver"));
  EXPECT_TRUE(facts[0].integrated);
  EXPECT_EQ(facts[0].memory, Bytes(5));
}

TEST(DriverFacts, AreAskedOfAProcessThatHoldsNothingOfOurs) {
  const TemporaryFolder folder;
  const OwnedFd ours(fcntl(STDERR_FILENO, F_DUPFD, 100));  // and not closed on exec
  ASSERT_TRUE(ours.valid());
  const std::string place = "/proc/$$/fd/" + std::to_string(ours.get());
  const std::string program =
      program_that(folder, "[ -e " + place + " ] || echo GPU-1 integrated 5");
  EXPECT_EQ(ask_driver(program, "/driver", seconds(10)).size(), 1u);
}

TEST(DriverFacts, LeaveNoProcessBehind) {
  const TemporaryFolder folder;
  // It says all that it has to and goes on.
  const std::string goes_on = program_that(folder, "echo GPU-1 integrated 5; exec sleep 60 >&-");
  EXPECT_EQ(ask_driver(goes_on, "/driver", seconds(10)).size(), 1u);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "it was killed, and reaped";
  const std::string hangs = program_that(folder, "exec sleep 60");
  EXPECT_TRUE(ask_driver(hangs, "/driver", milliseconds(100)).empty());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(DriverFacts, AreNoneWhereTheDriverFailsOrHangs) {
  const TemporaryFolder folder;
  EXPECT_TRUE(ask_driver(folder / "missing", "/driver", seconds(10)).empty());
  EXPECT_TRUE(ask_driver(program_that(folder, "exit 1"), "/driver", seconds(10)).empty());
  // The sleep is what is tested: a driver that does not come back.
  const std::string hangs = program_that(folder, "echo GPU-1 integrated 5; exec sleep 60");
  EXPECT_TRUE(ask_driver(hangs, "/driver", milliseconds(100)).empty());
}

}  // namespace
}  // namespace lambent::monitor
