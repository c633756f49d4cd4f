#include "daemon/fabric/authentication.h"

#include <algorithm>
#include <cstdlib>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "absl/strings/str_cat.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/rail/text_field.h"

namespace mlxcomm::fabric {
namespace {

template <typename Message>
void Append(const Message& message, std::vector<std::uint8_t>& bytes) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(&message);
  bytes.insert(bytes.end(), first, first + sizeof message);
}

}  // namespace

wire::Greeting MakeGreeting(std::string_view cluster, const ClusterKeys& keys,
                            wire::Security wanted) {
  wire::Greeting greeting{};
  greeting.magic = wire::kGreetingMagic;
  const wire::VersionRange spoken = wire::SpokenVersions();
  greeting.version = spoken.newest;
  greeting.older = static_cast<std::uint16_t>(spoken.newest - spoken.oldest);
  greeting.security = wanted;
  rail::PutText(cluster, greeting.cluster);
  greeting.keys[0] = keys.current.id();
  if (keys.previous.has_value()) greeting.keys[1] = keys.previous->id();
  // No proof is possible without random numbers.
  if (RAND_bytes(greeting.nonce.data(), static_cast<int>(greeting.nonce.size())) != 1) std::abort();
  return greeting;
}

wire::VersionRange VersionsOf(const wire::Greeting& greeting) {
  return {static_cast<std::uint16_t>(greeting.version - greeting.older), greeting.version};
}

GreetingFault CheckGreeting(const wire::Greeting& greeting, std::string_view cluster) {
  if (greeting.magic != wire::kGreetingMagic)
    return {"it is not an mlxcommd", LinkReason::kNotADaemon};
  if (greeting.older >= greeting.version)
    return {"its greeting names no protocol version", LinkReason::kNotADaemon};
  const wire::VersionRange theirs = VersionsOf(greeting);
  if (const wire::VersionRange ours = wire::SpokenVersions();
      !wire::CommonVersion(ours, theirs).has_value()) {
    return {absl::StrCat("it speaks protocol version ", wire::TextOf(theirs), ", and this daemon ",
                         wire::TextOf(ours)),
            LinkReason::kVersionTooFar};
  }
  if (rail::TextOf(greeting.cluster) != cluster)
    return {"it belongs to another cluster", LinkReason::kWrongCluster};
  if (greeting.security != wire::Security::kPlainWillDo &&
      greeting.security != wire::Security::kTls) {
    return {"it wants a security level that this version does not know",
            LinkReason::kVersionTooFar};
  }
  return {};
}

const ClusterKey* ChooseKey(const ClusterKeys& own, const wire::Greeting& dialer,
                            const wire::Greeting& acceptor) {
  for (const wire::KeyId& id : acceptor.keys) {
    if (id == wire::KeyId{}) continue;
    if (std::ranges::count(dialer.keys, id) > 0) return own.Find(id);
  }
  return nullptr;
}

bool WantTls(const wire::Greeting& dialer, const wire::Greeting& acceptor) {
  return dialer.security == wire::Security::kTls || acceptor.security == wire::Security::kTls;
}

DerivedKey MakeTlsKey(const ClusterKey& key, const wire::Greeting& dialer,
                      const wire::Greeting& acceptor, const wire::Proof& dialers_proof,
                      const wire::Proof& acceptors_proof) {
  std::vector<std::uint8_t> messages;
  Append(dialer, messages);
  Append(acceptor, messages);
  Append(dialers_proof, messages);
  Append(acceptors_proof, messages);
  return key.Derive("rail", messages);
}

wire::Mac MakeMac(std::span<const std::uint8_t> key, rail::Role sender,
                  const wire::Greeting& dialer, const wire::Greeting& acceptor,
                  std::span<const std::uint8_t> message) {
  const std::string_view role = sender == rail::Role::kDialer ? "dialer  " : "acceptor";
  std::vector<std::uint8_t> covered(role.begin(), role.end());
  Append(dialer, covered);
  Append(acceptor, covered);
  covered.insert(covered.end(), message.begin(), message.end());
  return KeyedHash(key, covered);
}

wire::Mac KeyedHash(std::span<const std::uint8_t> key, std::span<const std::uint8_t> bytes) {
  wire::Mac mac{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(), bytes.size(),
           mac.data(), &length) == nullptr ||
      length != mac.size()) {
    std::abort();
  }
  return mac;
}

bool EqualInConstantTime(const wire::Mac& a, const wire::Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mlxcomm::fabric
