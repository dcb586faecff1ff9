#include "gpu/shim/graph_names.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace lambent::shim {
namespace {

Handle handle(uint64_t number) { return reinterpret_cast<Handle>(number); }

NodeName name(uint64_t node, uint64_t top, Address address, NamedBy by = NamedBy::kKernel) {
  return {handle(node), handle(top), by, address, 0};
}

std::multiset<Address> addresses(const NodeNames& names) {
  std::multiset<Address> all;
  for (const NodeName& each : names) all.insert(each.address);
  return all;
}

void set(GraphNames& graphs, uint64_t graph, std::initializer_list<NodeName> given) {
  NodeNames names;
  for (const NodeName& each : given) names.add(each);
  graphs.set(handle(graph), names);
}

TEST(GraphNames, KnowNothingOfAGraphThatIsGone) {
  GraphNames graphs;
  set(graphs, 1, {name(10, 10, 512)});
  EXPECT_NE(graphs.find(handle(1)), nullptr);
  graphs.forget(handle(1));
  graphs.forget(handle(1));
  EXPECT_EQ(graphs.find(handle(1)), nullptr);
  EXPECT_EQ(graphs.size(), 0U);
}

TEST(GraphNames, AreThoseOfTheGraphThatGotTheHandleLast) {
  GraphNames graphs;
  set(graphs, 1, {name(10, 10, 512), name(11, 11, 0, NamedBy::kAnything)});
  EXPECT_TRUE(graphs.find(handle(1))->has_unknown());
  graphs.find(handle(1))->looked_up_at = 7;
  set(graphs, 1, {name(12, 12, 1024)});
  EXPECT_EQ(addresses(*graphs.find(handle(1))), std::multiset<Address>{1024});
  EXPECT_FALSE(graphs.find(handle(1))->has_unknown());
  EXPECT_EQ(graphs.find(handle(1))->looked_up_at, 0U);
}

TEST(NodeNames, OfOneNodeAreReplacedAlone) {
  NodeNames names;
  names.add(name(10, 10, 1));
  names.add(name(10, 10, 2));
  names.add(name(11, 11, 3));
  names.looked_up_at = 7;
  NodeNames others;
  others.add(name(10, 10, 4));
  names.replace(handle(10), others);
  EXPECT_EQ(addresses(names), (std::multiset<Address>{3, 4}));
  EXPECT_EQ(names.looked_up_at, 0U) << "they have to be looked up again";
}

TEST(NodeNames, OfAChildGoWithIt) {
  NodeNames names;
  names.add(name(20, 10, 1));
  names.add(name(21, 10, 2, NamedBy::kUpload));
  names.add(name(11, 11, 3));
  EXPECT_TRUE(names.has_uploads());
  NodeNames others;
  others.add(name(30, 10, 4));
  names.replace(handle(10), others);
  EXPECT_EQ(addresses(names), (std::multiset<Address>{3, 4}));
  EXPECT_FALSE(names.has_uploads());
  NodeNames none;
  names.replace(handle(10), none);
  EXPECT_EQ(addresses(names), std::multiset<Address>{3});
}

TEST(NodeNames, ANodeInAChildStaysThere) {
  NodeNames names;
  names.add(name(20, 10, 1));
  NodeNames others;
  others.add(name(20, 20, 2));
  names.replace(handle(20), others);
  NodeNames none;
  names.replace(handle(10), none);
  EXPECT_TRUE(addresses(names).empty()) << "it went with its child";
}

TEST(NodeNames, AnUnknownNodeIsUnknownUntilItNamesSomethingElse) {
  NodeNames names;
  names.add(name(10, 10, 0, NamedBy::kAnything));
  NodeNames others;
  others.add(name(10, 10, 5));
  names.replace(handle(10), others);
  EXPECT_FALSE(names.has_unknown());
}

TEST(NodeNames, AgreeWithAMapThroughManyRandomSteps) {
  GraphNames graphs;
  std::map<uint64_t, std::map<uint64_t, std::multiset<Address>>> expected;  // graph, node
  std::mt19937_64 random(20261123);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t graph = 1 + random() % 20;
    const uint64_t node = 100 + random() % 6;
    if (random() % 8 == 0) {
      graphs.forget(handle(graph));
      expected.erase(graph);
      continue;
    }
    NodeNames names;
    std::multiset<Address> added;
    for (uint64_t left = random() % 40; left > 0; --left) {
      names.add(name(node, node, *added.insert(random() % 50)));
    }
    if (NodeNames* known = graphs.find(handle(graph)); known != nullptr && random() % 4 != 0) {
      known->replace(handle(node), names);
      expected[graph][node] = added;
    } else {
      graphs.set(handle(graph), names);
      expected[graph] = {{node, added}};
    }
    std::multiset<Address> all;
    for (const auto& [each, its] : expected[graph]) all.insert(its.begin(), its.end());
    ASSERT_EQ(addresses(*graphs.find(handle(graph))), all);
  }
  EXPECT_EQ(graphs.size(), expected.size());
}

}  // namespace
}  // namespace lambent::shim
