#include "node/worker/listening_places.h"

#include <gmock/gmock.h>

#include "core/base/fd.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kTcp[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n"
    "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2\n"
    "   2: 0100007F:1388 0100007F:C3A8 01 00000000:00000000 00:00000000 00000000     0        0 3\n"
    "   3: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "4\n";
constexpr char kTcp6[] =
    "  sl  local_address                         remote_address                        st\n"
    "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0 0\n"
    "   1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0 0\n"
    "   2: 0000000000000000FFFF00000100007F:0051 00000000000000000000000000000000:0000 0A 0 0\n";

TEST(ListeningPlaces, AreReadFromTheKernelsTables) {
  EXPECT_THAT(listening_places(kTcp), ElementsAre("127.0.0.1:5000", "0.0.0.0:8080"));
  EXPECT_THAT(listening_places(kTcp6), ElementsAre("[::1]:8080", "[::]:80", "127.0.0.1:81"));
  for (const char* text :
       {"", "\n\n", "0: 0100007F 0 0A", "0: 0100007:1388 0 0A", "0: 0100007F:138 0 0A",
        "0: 010000zF:1388 0 0A", "0: :1388 0 0A", "0: 0100007F:13880 0 0A", "0: 0100007F:1388 0"}) {
    EXPECT_THAT(listening_places(text), IsEmpty()) << text;
  }
}

TEST(ListeningPlaces, AProcessThatHasGoneHasNone) {
  EXPECT_THAT(listening_places_of(-1), IsEmpty());
}

TEST(ListeningPlaces, ExplainWhyAProgramIsNotReady) {
  HttpContract http{.port = 8080, .readiness = ""};
  EXPECT_EQ(why_not_ready(http, {}),
            "the program does not listen on 127.0.0.1, port 8080 (its PORT)");
  EXPECT_EQ(why_not_ready(http, {"127.0.0.1:5000", "[::1]:8080"}),
            "the program does not listen on 127.0.0.1, port 8080 (its PORT), but on "
            "127.0.0.1:5000, [::1]:8080");
  http.readiness = "/healthz";
  EXPECT_EQ(why_not_ready(http, {"0.0.0.0:8080"}),
            "the program does not answer GET /healthz on port 8080 with 2xx or 3xx");
  EXPECT_EQ(why_not_ready(http, {"127.0.0.1:5000"}),
            "the program does not listen on 127.0.0.1, port 8080 (its PORT), but on "
            "127.0.0.1:5000");
}

}  // namespace
}  // namespace lambent::worker
