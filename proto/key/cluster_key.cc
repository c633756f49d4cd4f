#include "proto/key/cluster_key.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include "absl/strings/escaping.h"

namespace mlxcomm {
namespace {

constexpr std::string_view kSalt = "mlxcomm cluster key, version 1";

}  // namespace

ClusterKey ClusterKey::MakeRandom() {
  Bytes bytes;
  if (RAND_priv_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();
  ClusterKey key(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

DerivedKey::~DerivedKey() { OPENSSL_cleanse(data(), size()); }

ClusterKey::~ClusterKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

DerivedKey ClusterKey::Derive(std::string_view label, std::span<const std::uint8_t> context) const {
  // The zero after the label keeps a label with a context different from every other label.
  std::vector<std::uint8_t> info(label.begin(), label.end());
  info.push_back(0);
  info.insert(info.end(), context.begin(), context.end());
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&::EVP_PKEY_CTX_free)> hkdf(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), &::EVP_PKEY_CTX_free);
  const auto* const salt = reinterpret_cast<const unsigned char*>(kSalt.data());
  DerivedKey derived;
  std::size_t length = derived.size();
  if (hkdf == nullptr || EVP_PKEY_derive_init(hkdf.get()) <= 0 ||
      EVP_PKEY_CTX_set_hkdf_md(hkdf.get(), EVP_sha256()) <= 0 ||
      EVP_PKEY_CTX_set1_hkdf_salt(hkdf.get(), salt, static_cast<int>(kSalt.size())) <= 0 ||
      EVP_PKEY_CTX_set1_hkdf_key(hkdf.get(), bytes_.data(), static_cast<int>(bytes_.size())) <= 0 ||
      EVP_PKEY_CTX_add1_hkdf_info(hkdf.get(), info.data(), static_cast<int>(info.size())) <= 0 ||
      EVP_PKEY_derive(hkdf.get(), derived.data(), &length) <= 0 || length != derived.size()) {
    std::abort();
  }
  return derived;
}

ClusterKeyId ClusterKey::id() const {
  const DerivedKey derived = Derive("id");
  ClusterKeyId id;
  std::copy_n(derived.begin(), id.size(), id.begin());
  return id;
}

std::string KeyIdText(const ClusterKeyId& id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), id.size()});
}

bool operator==(const ClusterKey& a, const ClusterKey& b) {
  return CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), a.bytes_.size()) == 0;
}

const ClusterKey* ClusterKeys::Find(const ClusterKeyId& id) const {
  if (current.id() == id) return &current;
  return previous.has_value() && previous->id() == id ? &*previous : nullptr;
}

}  // namespace mlxcomm
