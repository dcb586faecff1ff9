// The bench's own arithmetic: workloads that ask for what they say, settings that are candidates,
// fairness as defined. Its experiments are held by keys_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/paper_mqfq/fairness.h"
#include "bench/paper_mqfq/run.h"

namespace lambent::paper_mqfq {
namespace {

workload::Catalogue catalogue() {
  return std::move(workload::open_catalogue(std::string(LAMBENT_SOURCE_DIR) +
                                            "/share/catalogue/mqfq_table1.csv"))
      .value();
}

TEST(ServiceGap, is_the_difference_between_functions_that_have_work_throughout) {
  // Both have work for 30 s: the one is on the device for 20 s of it, the other for 10.
  EXPECT_DOUBLE_EQ(10, service_gap({{0, 0, 0, 20}, {0, 0, 30, 30}, {1, 0, 20, 30}}, 2));
}

TEST(ServiceGap, is_zero_where_one_function_has_work_alone) {
  EXPECT_DOUBLE_EQ(0, service_gap({{0, 0, 0, 60}, {1, 10, 40, 50}}, 2));
}

TEST(Settings, name_a_candidate_of_every_system_that_is_swept) {
  const auto best = open_best(std::string(LAMBENT_SOURCE_DIR) + "/bench/paper_mqfq/settings.txt");
  ASSERT_TRUE(best.ok()) << best.error().message;
  EXPECT_EQ(swept().size(), best->size());
}

TEST(Settings, of_a_file_that_names_something_else_are_an_error) {
  EXPECT_FALSE(open_best(std::string(LAMBENT_SOURCE_DIR) + "/README.md").ok());
}

TEST(Systems, the_faithful_one_is_as_the_paper_has_it) {
  EXPECT_EQ("T 10 s, alpha 1.5, in-flight first, second containers, LRU eviction",
            settings_of(system_named("mqfq")));
}

TEST(Workloads, of_the_generator_ask_for_about_their_load) {
  const Workload workload = generated(catalogue(), "g", 0.6, 3);
  EXPECT_NEAR(0.6, workload.load(), 0.06);
}

TEST(Runs, give_the_same_for_the_same_seed_and_every_invocation_succeeds) {
  const Workload workload = generated(catalogue(), "g", 0.5, 3, 60);
  const Figures one = run_once(workload, system_named("mqfq"), Site(), Constants(), 1);
  const Figures same = run_once(workload, system_named("mqfq"), Site(), Constants(), 1);
  EXPECT_EQ(one.mean_s, same.mean_s);
  EXPECT_EQ(0, one.failed);
  EXPECT_GT(one.mean_s, 0);
}

TEST(Runs, find_every_invocation_cold_without_a_pool) {
  const Workload workload = generated(catalogue(), "g", 0.3, 3, 60);
  EXPECT_EQ(1, run_once(workload, system_named("naive"), Site(), Constants(), 1).cold);
}

TEST(GeometricMeans, are_of_each_seed_over_the_traces) {
  EXPECT_THAT(geometric_means({{1, 4}, {4, 9}}),
              testing::ElementsAre(testing::DoubleEq(2), testing::DoubleEq(6)));
}

}  // namespace
}  // namespace lambent::paper_mqfq
