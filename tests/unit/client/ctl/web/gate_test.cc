#include "client/ctl/web/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace mlxcomm::ctl::gate_test {
namespace {

const std::string kToken(32, 'a');

Gate GateOf(const std::string& bind = "127.0.0.1", const std::string& host_name = "studio-1.lan") {
  return {kToken, "/id/", 7480, bind, host_name};
}

// Returns whether it needs no escaping in URLs, cookies and HTML.
bool IsPlain(unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; }

TEST(GateTest, AdmitsTheTokenFromUrlOrCookie) {
  const std::string cookies = "other=1; mlxcomm_7480=" + kToken + "; mlxcomm_748=x";
  EXPECT_EQ(Admit(GateOf(), {"127.0.0.1:7480", "", kToken, "", true}), Admission::kAdmitted);
  EXPECT_EQ(Admit(GateOf(), {"localhost:7480", cookies, "", "same-origin", false}),
            Admission::kAdmitted);
}

TEST(GateTest, RefusesAnyOtherToken) {
  for (const std::string& token :
       {std::string(), kToken.substr(1), kToken + "a", std::string(32, 'b')}) {
    EXPECT_EQ(Admit(GateOf(), {"127.0.0.1:7480", "mlxcomm_7480=" + token, token, "", true}),
              Admission::kNoToken)
        << token;
  }
  EXPECT_EQ(Admit(GateOf(), {"127.0.0.1:7480", "mlxcomm_7481=" + kToken, "", "", true}),
            Admission::kNoToken);
}

// Why: an empty token would admit a browser without one.
TEST(GateTest, MakesANewTokenEachTime) {
  const std::string token = NewToken();
  EXPECT_EQ(token.size(), 22U);  // Of 6 bits each.
  EXPECT_TRUE(std::all_of(token.begin(), token.end(), IsPlain)) << token;
  EXPECT_NE(token, NewToken());
}

// Why: a server on another port that gets the cookie must not be able to derive the path.
TEST(GateTest, MakesAnUnpredictablePath) {
  const std::string path = NewPath();
  EXPECT_EQ(path.size(), 13U);
  EXPECT_TRUE(std::all_of(path.begin() + 1, path.end() - 1, IsPlain)) << path;
  EXPECT_TRUE(path.starts_with('/') && path.ends_with('/'));
  EXPECT_NE(path, NewPath());
}

// Why: DNS rebinding. A foreign name that resolves to this address would be this page's origin.
TEST(GateTest, RefusesForeignHosts) {
  for (const char* host :
       {"", "127.0.0.1", "127.0.0.1:7481", "evil.example:7480", "127.0.0.1.evil.example:7480",
        "localhost.:7480", "192.0.2.1:7480", "studio-1:7480", ":7480", "localhost:7480:7480"}) {
    EXPECT_EQ(Admit(GateOf(), {host, "", kToken, "", true}), Admission::kWrongHost) << host;
  }
  EXPECT_TRUE(IsOwnHost(GateOf(), "[::1]:7480"));
  EXPECT_TRUE(IsOwnHost({kToken, "/id/", 80, "::1", ""}, "127.0.0.1"));
}

TEST(GateTest, AcceptsThisMachinesAddressesAndNamesUnlessLoopback) {
  for (const char* host : {"192.0.2.1:7480", "[fe80::1]:7480", "studio-1:7480",
                           "Studio-1.local:7480", "studio-1.lan:7480", "localhost:7480"}) {
    EXPECT_TRUE(IsOwnHost(GateOf("0.0.0.0"), host)) << host;
  }
  for (const char* host : {"evil.example:7480", ":7480", "studio-2:7480", "1.2.3:7480",
                           "studio-1.example:7480", ".local:7480"})
    EXPECT_FALSE(IsOwnHost(GateOf("0.0.0.0"), host)) << host;
  EXPECT_FALSE(IsOwnHost(GateOf("0.0.0.0", ""), ".local:7480"));
}

TEST(GateTest, AcceptsItsBindAddress) {
  EXPECT_TRUE(IsOwnHost(GateOf("127.0.0.2"), "127.0.0.2:7480"));
  EXPECT_FALSE(IsOwnHost(GateOf("127.0.0.2"), "127.0.0.3:7480"));
  EXPECT_TRUE(IsOwnHost(GateOf("Studio-1.example", "another"), "studio-1.example:7480"));
}

// Why: a browser on another machine cannot open 127.0.0.1 or 0.0.0.0.
TEST(GateTest, UrlHasAReachableName) {
  EXPECT_EQ(HostOfUrl(GateOf()), "127.0.0.1");
  EXPECT_EQ(HostOfUrl(GateOf("fe80::1")), "[fe80::1]");
  for (const char* wildcard : {"0.0.0.0", "::", "0::0"}) {
    EXPECT_EQ(HostOfUrl(GateOf(wildcard)), "studio-1.lan") << wildcard;
    EXPECT_TRUE(IsOwnHost(GateOf(wildcard), HostOfUrl(GateOf(wildcard)) + ":7480")) << wildcard;
  }
  EXPECT_EQ(HostOfUrl(GateOf("::", "")), "[::1]");
}

// Why: for a browser, another port of this machine is the same site, and gets the cookie.
TEST(GateTest, LetsOtherSitesLinkToThePageButNotLoadItsParts) {
  const std::string cookies = "mlxcomm_7480=" + kToken;
  for (const char* site : {"cross-site", "same-site"}) {
    EXPECT_EQ(Admit(GateOf(), {"127.0.0.1:7480", cookies, "", site, false}), Admission::kOtherSite);
    EXPECT_EQ(Admit(GateOf(), {"127.0.0.1:7480", cookies, "", site, true}), Admission::kAdmitted);
  }
}

TEST(GateTest, FindsACookieByItsWholeName) {
  EXPECT_EQ(CookieIn("a=1;b=2 ; c=", "b"), "2");
  EXPECT_EQ(CookieIn("ab=1; b=2", "b"), "2");
  EXPECT_EQ(CookieIn("a=1;;", "b"), "");
  EXPECT_EQ(CookieIn("b", "b"), "");
}

TEST(GateTest, ReadsTheFieldsOfARequest) {
  const auto visit = ReadVisit(GateOf(),
                               "GET /id/?x=1&t=abc&y HTTP/1.1\r\nhOST:127.0.0.1:7480\r\n"
                               "Cookie: a=1; b=2\r\nX: t=no\r\nSec-Fetch-Site:\t none\r\n");
  ASSERT_TRUE(visit.has_value());
  EXPECT_EQ(visit->method, "GET");
  EXPECT_EQ(visit->path, "/id/");
  EXPECT_EQ(visit->token, "abc");
  EXPECT_EQ(visit->host, "127.0.0.1:7480");
  EXPECT_EQ(visit->cookies, "a=1; b=2");
  EXPECT_EQ(visit->fetch_site, "none");
  EXPECT_TRUE(visit->opens_page);
  const auto other = ReadVisit(GateOf(), "HEAD /id/page.js HTTP/1.0\r\n");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->path, "/id/page.js");
  EXPECT_TRUE(other->token.empty() && other->host.empty());
  EXPECT_FALSE(other->opens_page);
}

TEST(GateTest, RejectsInvalidRequests) {
  for (const char* head :
       {"", "\r\n", "GET\r\n", "GET /id/\r\n", "GET  HTTP/1.1\r\n", "GET id HTTP/1.1\r\n",
        "GET /id/ HTTP/2\r\n", "GET /id/ x HTTP/1.1\r\n", "GET /id/ HTTP/1.1\r\nHost\r\n",
        "GET /id/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n", "\x16\x03\x01 / HTTP/1.1 \r\n\r\n"})
    EXPECT_FALSE(ReadVisit(GateOf(), head).has_value()) << head;
}

TEST(GateTest, DistinguishesLoopbackFromOtherAddresses) {
  for (const char* own : {"127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "localhost"})
    EXPECT_TRUE(IsLoopback(own)) << own;
  for (const char* other : {"0.0.0.0", "::", "192.0.2.1", "127.0.0.1.evil.example", "127.example"})
    EXPECT_FALSE(IsLoopback(other)) << other;
}

}  // namespace
}  // namespace mlxcomm::ctl::gate_test
