// The limits of what one sandbox may have in the network at one time, by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kNetworkConnections = 512;
constexpr size_t kNetworkKnownFlows = 4'096;  // those that ended a while ago included
constexpr size_t kNetworkQuestions = 64;      // of names, that wait for an answer
constexpr size_t kNetworkNames = 1'024;       // addresses that are open because of a name
constexpr size_t kNetworkNameAnswers = 16;    // addresses of one answer
constexpr Duration kLeastNameLife = seconds(30);
constexpr Duration kMostNameLife = seconds(3600);
constexpr Duration kNameTimeout = seconds(2);  // of one try
constexpr Duration kNetworkConnectTimeout = seconds(60);
constexpr Duration kNetworkFlowLinger = seconds(60);  // after both ends closed
constexpr Bytes kNetworkBuffer = Bytes::kib(256);     // of one direction of a connection
constexpr size_t kNetworkRefusalsTold = 16;           // different ones, in an interval
constexpr Duration kNetworkRefusalInterval = seconds(1);

}  // namespace lambent::limits
