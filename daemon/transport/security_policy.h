// Whether a rail is to be encrypted, by the interface that it is on.
//
//   kPlain  this side does not ask for it    kTls  this side asks for it
//   kAuto   asks for it unless the interface is a direct cable (platform/interfaces.h)
//
// A rail is encrypted when either of its ends asks for it (wire/hello.h), so a mistake on one
// machine cannot make it weaker than the other machine wants it.
//
// Owner: plain values. Thread: any. Memory: a few names.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace mlxcomm::fabric {

enum class Security : std::uint8_t { kAuto, kTls, kPlain };

struct SecurityPolicy {
  Security elsewhere = Security::kAuto;
  // By the interface's name; of loopback ones by the address (daemon/transport/rail_path.h).
  std::map<std::string, Security> on_interface;
};

bool AsksForTls(const SecurityPolicy& policy, const std::string& interface_name);

}  // namespace mlxcomm::fabric
