"""The product's version and the contract's; the second is also the version of the prose in api-contract.md."""

VERSION = "0.1.0"
CONTRACT_VERSION = "1.0"
