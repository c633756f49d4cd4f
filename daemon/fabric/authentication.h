// Proof that the other daemon holds the cluster's key: the HMACs of wire/hello.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/rail/rail_path.h"
#include "proto/key/cluster_key.h"
#include "proto/types/link_reason.h"
#include "proto/wire/hello.h"
#include "proto/wire/versions.h"

namespace mlxcomm::fabric {

wire::Greeting MakeGreeting(std::string_view cluster, const ClusterKeys& keys,
                            wire::Security wanted);
// Why a greeting is refused; the text is empty if it is not.
struct GreetingFault {
  std::string text;
  LinkReason reason = LinkReason::kNone;
};
GreetingFault CheckGreeting(const wire::Greeting& greeting, std::string_view cluster);
// The versions that the sender of a valid greeting speaks.
wire::VersionRange VersionsOf(const wire::Greeting& greeting);

// A key that both sides hold; nullptr if there is none.
const ClusterKey* ChooseKey(const ClusterKeys& own, const wire::Greeting& dialer,
                            const wire::Greeting& acceptor);
bool WantTls(const wire::Greeting& dialer, const wire::Greeting& acceptor);
DerivedKey MakeTlsKey(const ClusterKey& key, const wire::Greeting& dialer,
                      const wire::Greeting& acceptor, const wire::Proof& dialers_proof,
                      const wire::Proof& acceptors_proof);

// HMAC-SHA256 of (role of the sender, dialer's greeting, acceptor's greeting, message).
wire::Mac MakeMac(std::span<const std::uint8_t> key, rail::Role sender,
                  const wire::Greeting& dialer, const wire::Greeting& acceptor,
                  std::span<const std::uint8_t> message);
wire::Mac KeyedHash(std::span<const std::uint8_t> key, std::span<const std::uint8_t> bytes);
bool EqualInConstantTime(const wire::Mac& a, const wire::Mac& b);

}  // namespace mlxcomm::fabric
