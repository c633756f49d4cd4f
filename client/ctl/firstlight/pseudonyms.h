// Replaces names of machines and users, and addresses, in a text for other people: equal ones by
// equal ones throughout, so that relations still show, and each address by one of its kind, because
// the kind matters (a GID's most of all).
//
//   studio-max            mac-1           names passed to Know
//   fe80::347c:94ff:...   fe80::200:ff:fe00:1   link-local, made of a MAC address
//   fe80::1234...         fe80::1         link-local, other
//   169.254.7.9           169.254.0.1     IPv4: 169.254, 127 and 10 stay; others become 192.0.2.1
//   2001:db8:...          2001:db8::1     other IPv6
//   3a:b4:...             02:00:00:00:00:01     MAC addresses
//
// Owner: the maker of a report. Thread: one. Memory: an entry for each name or address.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::ctl {

class Pseudonyms {
 public:
  // False: texts stay as they are (except for keys, which others remove).
  explicit Pseudonyms(bool replaces) : replaces_(replaces) {}

  bool replaces() const { return replaces_; }
  // Every occurrence of `name` as a word becomes `kind` and a number, "mac-1"; a single character
  // stays.
  void Know(const std::string& name, const std::string& kind);
  // For a name with a replacement of its own, "/place/anna" and "~".
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
