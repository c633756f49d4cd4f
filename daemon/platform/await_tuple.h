// The result of an awaited operation of Asio: a tuple whose first member is the error, in place of
// an exception.
//
//   auto [error, bytes] = co_await socket.async_read_some(buffer, platform::kTuple);
//
// Older versions of Asio have it in asio::experimental, those from 1.33 on only elsewhere.
#pragma once

#if __has_include(<asio/as_tuple.hpp>)
#include <asio/as_tuple.hpp>
#else
#include <asio/experimental/as_tuple.hpp>
#endif
#include <asio/use_awaitable.hpp>

namespace mlxcomm::platform {

#if __has_include(<asio/as_tuple.hpp>)
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
#else
inline constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);
#endif

}  // namespace mlxcomm::platform
