#include "daemon/discovery/sealed_hello.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <openssl/crypto.h>

#include "absl/strings/str_cat.h"
#include "daemon/fabric/authentication.h"
#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::discovery {
namespace {

std::span<const std::uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A faulty daemon may sign nonsense.
bool IsWithinBounds(const wire::DiscoveryHello& hello) {
  if (hello.heard_count > wire::kHeardNodesMax || hello.incarnation == 0 || hello.sequence == 0 ||
      hello.nonce == 0 || hello.port == 0 || !IsLinkLocal(hello.address)) {
    return false;
  }
  return !rail::TextOf(hello.node_name).empty() && !rail::TextOf(hello.interface_name).empty() &&
         IsPlainText(rail::TextOf(hello.node_name)) &&
         IsPlainText(rail::TextOf(hello.interface_name));
}

}  // namespace

bool IsLinkLocal(const wire::AddressBytes& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

// The tag is public, so it reveals nothing about the sealing key.
HelloSeal::HelloSeal(std::span<const std::uint8_t> key, std::string_view cluster) {
  wire::Mac made = fabric::KeyedHash(
      key, BytesOf(absl::StrCat("mlxcomm discovery key 1 ", std::string(cluster))));
  std::ranges::copy(made, key_.begin());
  OPENSSL_cleanse(made.data(), made.size());
  const wire::Mac tag = fabric::KeyedHash(
      key, BytesOf(absl::StrCat("mlxcomm discovery tag 1 ", std::string(cluster))));
  std::copy_n(tag.begin(), tag_.size(), tag_.begin());
}

wire::Mac HelloSeal::MacOf(const wire::DiscoveryHello& hello) const {
  return fabric::KeyedHash(
      key_, {reinterpret_cast<const std::uint8_t*>(&hello), offsetof(wire::DiscoveryHello, mac)});
}

void HelloSeal::Seal(wire::DiscoveryHello& hello) const {
  hello.magic = wire::kDiscoveryMagic;
  hello.version = wire::kDiscoveryVersion;
  hello.tag = tag_;
  hello.mac = MacOf(hello);
}

HelloSeal::Look HelloSeal::LookAt(std::span<const std::uint8_t> datagram) const {
  if (datagram.size() != sizeof(wire::DiscoveryHello)) return Look::kMalformed;
  wire::DiscoveryHello hello;
  std::memcpy(&hello, datagram.data(), offsetof(wire::DiscoveryHello, node_id));
  if (hello.magic != wire::kDiscoveryMagic || hello.version != wire::kDiscoveryVersion) {
    return Look::kMalformed;
  }
  return hello.tag == tag_ ? Look::kOurs : Look::kForeign;
}

std::optional<wire::DiscoveryHello> HelloSeal::Open(std::span<const std::uint8_t> datagram) const {
  if (datagram.size() != sizeof(wire::DiscoveryHello)) return std::nullopt;
  wire::DiscoveryHello hello;
  std::memcpy(&hello, datagram.data(), sizeof hello);
  if (!fabric::EqualInConstantTime(hello.mac, MacOf(hello))) return std::nullopt;
  if (!IsWithinBounds(hello)) return std::nullopt;
  return hello;
}

}  // namespace mlxcomm::discovery
