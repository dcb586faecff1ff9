#include "sim/workload/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

using testing::HasSubstr;

constexpr char kHeader[] =
    "name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source\n";

Result<Catalogue> read(const std::string& rows) {
  const std::string text = kHeader + rows;
  return read_catalogue(*lines_of(text), "c.csv");
}

TEST(Catalogue, OfThePaperShipsAsDataAndSaysWhichNumbersAreGuesses) {
  const auto catalogue = open_catalogue(LAMBENT_SOURCE_DIR "/share/catalogue/mqfq_table1.csv");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  EXPECT_EQ(catalogue->size(), 9u);
  const CatalogueEntry* fft = find_entry(*catalogue, "fft");
  ASSERT_NE(fft, nullptr);
  EXPECT_DOUBLE_EQ(fft->gpu_warm_s, 0.897);
  EXPECT_EQ(fft->device_memory, Bytes::mib(1536));
  for (const CatalogueEntry& entry : *catalogue) {
    EXPECT_EQ(entry.times_source, "paper");
    EXPECT_EQ(entry.memory_source, entry.name == "FFT" ? "paper" : "guess") << entry.name;
  }
  // As printed: Myocyte's cold invocation is faster than its warm one.
  EXPECT_EQ(find_entry(*catalogue, "Myocyte")->init_s(), 0);
}

TEST(Catalogue, NamesBadRowsByLine) {
  const auto catalogue = read(
      "a,1,1,1,10,paper,guess\nb,x,1,1,10,p,g\nc,1,1,1,ten,p,g\na,1,1,1,1,p,g\nd,0,1,1,1,p,g\n");
  ASSERT_FALSE(catalogue.ok());
  EXPECT_THAT(catalogue.error().message,
              HasSubstr("c.csv has 4 bad rows: line 3: gpu_warm_s is 'x'"));
  EXPECT_THAT(catalogue.error().message, HasSubstr("line 4: device_memory_mib is 'ten'"));
  EXPECT_THAT(catalogue.error().message, HasSubstr("line 5: function 'a' has a row already"));
  EXPECT_FALSE(read("").ok());
}

TEST(Catalogue, AFunctionMayTakeSeveralGpus) {
  const auto read_with_count = [](const std::string& rows) {
    const std::string text = "gpu_count," + std::string(kHeader) + rows;
    return read_catalogue(*lines_of(text), "c.csv");
  };
  const auto catalogue = read_with_count("2,pair,1,1,1,10,p,g\n,one,1,1,1,10,p,g\n");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  EXPECT_EQ(find_entry(*catalogue, "pair")->gpu_count, 2u);
  EXPECT_EQ(find_entry(*catalogue, "one")->gpu_count, 1u);
  for (const char* count : {"0", "65", "two"}) {
    const auto bad = read_with_count(std::string(count) + ",pair,1,1,1,10,p,g\n");
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(bad.error().message, HasSubstr("gpu_count is '" + std::string(count) + "'"));
  }
}

TEST(Catalogue, ASandboxMayTakeSeveralInvocationsAtOnce) {
  const auto read_with = [](const std::string& rows) {
    const std::string text = "concurrency," + std::string(kHeader) + rows;
    return read_catalogue(*lines_of(text), "c.csv");
  };
  const auto catalogue = read_with("8,server,1,1,1,10,p,g\n,one,1,1,1,10,p,g\n");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  EXPECT_EQ(find_entry(*catalogue, "server")->concurrency, 8u);
  EXPECT_EQ(find_entry(*catalogue, "one")->concurrency, 1u);
  for (const std::string count : {"0", "1001", "many"}) {
    const auto bad = read_with(count + ",server,1,1,1,10,p,g\n");
    ASSERT_FALSE(bad.ok()) << count;
    EXPECT_THAT(bad.error().message, HasSubstr("concurrency is '" + count + "', not 1 to 1000"));
  }
}

TEST(Catalogue, GivesEachFunctionOfATraceItsEntry) {
  const auto catalogue = read("short,0.1,1,1,1,p,g\nmiddle,1,1,2,1,p,g\nlong,5,1,9,1,p,g\n");
  ASSERT_TRUE(catalogue.ok());
  SeededRandom random(1);
  const std::vector<TraceFunction> functions = {{.name = "named", .catalogue_entry = "Long"},
                                                {.name = "brief", .recorded_s = 0.01},
                                                {.name = "recorded", .recorded_s = 4.9},
                                                {.name = "drawn"}};
  const auto entries = assign_entries(functions, *catalogue, random);
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ((*entries)[0]->name, "long");
  EXPECT_EQ((*entries)[1]->name, "short");
  EXPECT_EQ((*entries)[2]->name, "middle");
  EXPECT_NE((*entries)[3], nullptr);

  const auto unknown = assign_entries({{.name = "f", .catalogue_entry = "?"}}, *catalogue, random);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::workload
