// Names of machines and users, and addresses, replaced in a text that goes to somebody else: the same
// by the same throughout, so that what belongs together still shows, and each address by one of its
// kind, for the kind is what matters (a GID's most of all).
//
//   studio-max            mac-1           names that were told to Know
//   fe80::347c:94ff:...   fe80::200:ff:fe00:1   link-local, made of a MAC address
//   fe80::1234...         fe80::1         link-local, other
//   169.254.7.9           169.254.0.1     IPv4: 169.254, 127 and 10 stay; others become 192.0.2.1
//   2001:db8:...          2001:db8::1     other IPv6
//   3a:b4:...             02:00:00:00:00:01     MAC addresses
//
// Owner: who makes a report. Thread: one. Memory: one entry a name or address.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::ctl {

class Pseudonyms {
 public:
  // False: texts stay as they are (but for keys, which are another's business).
  explicit Pseudonyms(bool replaces) : replaces_(replaces) {}

  bool replaces() const { return replaces_; }
  // Every occurrence of `name` as a word becomes `kind` and a number, "mac-1"; a single
  // character stays.
  void Know(const std::string& name, const std::string& kind);
  // Of a name with its own replacement, "/place/anna" and "~".
  void KnowAs(const std::string& name, const std::string& instead);
  std::string Replace(std::string text) const;

 private:
  std::string Address(const std::string& address) const;

  const bool replaces_;
  std::vector<std::pair<std::string, std::string>> names_;  // The longest first.
  std::map<std::string, int> counts_;
  mutable std::map<std::string, std::string> addresses_;
  mutable std::map<std::string, int> addresses_of_kind_;
};

}  // namespace mlxcomm::ctl
