#include "emulator/emulated_node/machine.h"

#include <gtest/gtest.h>

#include <string>

#include <fstream>
#include <sstream>

namespace lambent::emulated_node {
namespace {

std::string tiny_text() {
  std::ifstream file(std::string(LAMBENT_SOURCE_DIR) +
                     "/src/emulator/emulated_node/presets/tiny.toml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Machine, EveryPresetCanBeRead) {
  for (const char* name :
       {"v100-16gb", "a100-80gb", "a100-80gb-mig", "h100-80gb", "h200", "gb10", "tiny"}) {
    NodeSpec spec;
    std::string error;
    EXPECT_TRUE(read_node_spec(name, &spec, &error)) << name << ": " << error;
    EXPECT_GE(spec.device.memory_bytes, uint64_t{1} << 30) << name;
  }
}

TEST(Machine, OneDeviceIsIntegrated) {
  NodeSpec spec;
  std::string error;
  ASSERT_TRUE(read_node_spec("gb10", &spec, &error)) << error;
  EXPECT_EQ(spec.device.integrated, 1);
  ASSERT_TRUE(read_node_spec("h200", &spec, &error)) << error;
  EXPECT_EQ(spec.device.integrated, 0);
}

TEST(Machine, AnUnknownPresetIsAnsweredWithTheKnownOnes) {
  NodeSpec spec;
  std::string error;
  EXPECT_FALSE(read_node_spec("gtx", &spec, &error));
  EXPECT_NE(error.find("v100-16gb"), std::string::npos) << error;
}

TEST(Machine, APresetOfOneDeviceCanBeHadSeveralTimes) {
  NodeSpec spec, one;
  std::string error;
  ASSERT_TRUE(read_node_spec("a100-80gb-mig", &one, &error)) << error;
  ASSERT_TRUE(read_node_spec("a100-80gb-mig-x64", &spec, &error)) << error;
  EXPECT_EQ(spec.device_count, 64);
  EXPECT_EQ(spec.device.memory_bytes, one.device.memory_bytes);
  EXPECT_EQ(spec.mig.instance_count, 3u);
  ASSERT_TRUE(read_node_spec("tiny-x4", &spec, &error)) << error;
  EXPECT_EQ(spec.topology.pcie_peers, 1) << "a preset of that name comes first";
  EXPECT_FALSE(read_node_spec("tiny-x65", &spec, &error));
  EXPECT_EQ(error, "'tiny-x65': a node has at most 64 devices");
  EXPECT_FALSE(read_node_spec("h200-x8-x2", &spec, &error));
  EXPECT_EQ(error, "'h200-x8-x2': h200-x8 has several devices already");
  for (const char* name : {"tiny-x", "tiny-x0", "tiny-x04", "tiny-x2y", "gtx-x2", "-x2", "x2"}) {
    EXPECT_FALSE(read_node_spec(name, &spec, &error)) << name;
    EXPECT_NE(error.find("and PRESET-xN for N devices of one"), std::string::npos) << error;
  }
}

TEST(Machine, MistakesNameTheSectionAndTheKey) {
  NodeSpec spec;
  std::string error;
  EXPECT_FALSE(parse_node_spec(tiny_text() + "\nwave_us_typo = 1\n", &spec, &error));
  EXPECT_EQ(error, "[cost] unknown key wave_us_typo");
  std::string text = tiny_text();
  text.replace(text.find("latency_us = 1"), 14, "latency_us = -1");
  EXPECT_FALSE(parse_node_spec(text, &spec, &error));
  EXPECT_EQ(error, "[link] latency_us must be positive");
  EXPECT_FALSE(parse_node_spec("a = \n", &spec, &error));
  EXPECT_NE(error.find("line 1"), std::string::npos) << error;
}

TEST(Machine, AMigLayoutMustFit) {
  NodeSpec spec;
  std::string error;
  ASSERT_TRUE(read_node_spec("a100-80gb-mig", &spec, &error)) << error;
  EXPECT_EQ(spec.mig.instance_count, 3u);
  auto mistake = [&](const std::string& mig) {
    return parse_node_spec(tiny_text() + "\n[mig]\n" + mig, &spec, &error) ? "" : error;
  };
  EXPECT_EQ(mistake("family = \"h200\"\nenabled = true\nlayout = [\"7g.141gb\"]"), "");
  EXPECT_EQ(mistake("family = \"tiny\""), "[mig] family 'tiny' is not known");
  EXPECT_EQ(mistake("family = \"h200\"\nlayout = [\"1g.18gb\"]"),
            "[mig] a layout needs enabled = true");
  EXPECT_EQ(mistake("family = \"h200\"\nenabled = true\nlayout = [\"1g.5gb\"]"),
            "[mig] layout: there is no instance '1g.5gb'");
  EXPECT_EQ(mistake("family = \"h200\"\nenabled = true\nlayout = [\"7g.141gb\", \"1g.18gb\"]"),
            "[mig] layout: there is no room for '1g.18gb'");
  EXPECT_EQ(mistake("family = \"h200\"\nenabled = 3"), "[mig] enabled must be true or false");
}

TEST(Machine, DevicesAreNearTheProcessorsOfTheTopology) {
  NodeSpec spec;
  std::string error;
  auto with = [&](const std::string& topology) {
    std::ifstream file(std::string(LAMBENT_SOURCE_DIR) +
                       "/src/emulator/emulated_node/presets/tiny.toml");
    std::stringstream text;
    text << file.rdbuf();
    std::string toml = text.str();
    toml.replace(toml.find("devices = 1"), 11, "devices = 2");
    return parse_node_spec(toml + "\n[topology]\n" + topology, &spec, &error);
  };
  ASSERT_TRUE(with("processors = [\"0-1,5\", \"63\"]")) << error;
  EXPECT_EQ(spec.topology.processors[0], 0b100011u);
  EXPECT_EQ(spec.topology.processors[1], 1ull << 63);
  EXPECT_FALSE(with("processors = [\"0\"]"));
  for (const char* bad : {"", "1-", "3-1", "64", "a", "0-1x", "-1"}) {
    EXPECT_FALSE(with("processors = [\"0\", \"" + std::string(bad) + "\"]")) << bad;
  }
}

TEST(Machine, ATopologyJoinsAllDevicesOrPairs) {
  NodeSpec spec;
  std::string error;
  auto with = [&](const std::string& topology) {
    std::ifstream file(std::string(LAMBENT_SOURCE_DIR) +
                       "/src/emulator/emulated_node/presets/tiny.toml");
    std::stringstream text;
    text << file.rdbuf();
    std::string toml = text.str();
    toml.replace(toml.find("devices = 1"), 11, "devices = 3");
    return parse_node_spec(toml + "\n[topology]\n" + topology, &spec, &error);
  };
  const std::string rate = "nvlink_gb_per_s = 450\nnvlink_latency_us = 2\n";
  ASSERT_TRUE(with("nvlink = \"all\"\n" + rate)) << error;
  EXPECT_EQ(spec.topology.nvlink_peers[1], 0b101u);
  EXPECT_EQ(spec.topology.nvlink_latency_ns, 2000);
  ASSERT_TRUE(with("nvlink = [[0, 2]]\npcie_peers = true\n" + rate)) << error;
  EXPECT_EQ(spec.topology.nvlink_peers[0], 0b100u);
  EXPECT_EQ(spec.topology.nvlink_peers[1], 0u);
  EXPECT_EQ(spec.topology.pcie_peers, 1);
  EXPECT_FALSE(with("nvlink = [[0, 3]]\n" + rate));
  EXPECT_FALSE(with("nvlink = \"all\"\n"));
  EXPECT_FALSE(with("nvlink = 5\n" + rate));
  EXPECT_FALSE(with("nvswitch = true\n"));
}

}  // namespace
}  // namespace lambent::emulated_node
