//! Forwards methods of a wrapping device to the wrapped one (`self.inner`).

/// Implements the named methods inside an `impl Mtd` by calling the same method of `self.inner`.
#[macro_export]
macro_rules! forward {
    ($($method:ident),* $(,)?) => { $($crate::forward!(@ $method);)* };
    (@ geometry) => {
        fn geometry(&self) -> &::eraseblock_base::Geometry {
            self.inner.geometry()
        }
    };
    (@ read) => {
        fn read(&self, addr: u64, buf: &mut [u8]) -> Result<$crate::ReadOutcome, $crate::MtdError> {
            self.inner.read(addr, buf)
        }
    };
    (@ program) => {
        fn program(&self, addr: u64, data: &[u8]) -> Result<(), $crate::MtdError> {
            self.inner.program(addr, data)
        }
    };
    (@ erase) => {
        fn erase(&self, peb: ::eraseblock_base::Peb) -> Result<(), $crate::MtdError> {
            self.inner.erase(peb)
        }
    };
    (@ is_bad) => {
        fn is_bad(&self, peb: ::eraseblock_base::Peb) -> Result<bool, $crate::MtdError> {
            self.inner.is_bad(peb)
        }
    };
    (@ mark_bad) => {
        fn mark_bad(&self, peb: ::eraseblock_base::Peb) -> Result<(), $crate::MtdError> {
            self.inner.mark_bad(peb)
        }
    };
    (@ sync) => {
        fn sync(&self) -> Result<(), $crate::MtdError> {
            self.inner.sync()
        }
    };
    (@ oob) => {
        $crate::forward!(@ read_oob);

        fn program_oob(
            &self,
            addr: u64,
            offset: u32,
            data: &[u8],
        ) -> Result<(), $crate::MtdError> {
            self.inner.program_oob(addr, offset, data)
        }
    };
    (@ read_oob) => {
        fn read_oob(
            &self,
            addr: u64,
            offset: u32,
            buf: &mut [u8],
        ) -> Result<$crate::ReadOutcome, $crate::MtdError> {
            self.inner.read_oob(addr, offset, buf)
        }
    };
    (@ read_with_oob) => {
        fn read_with_oob(
            &self,
            addr: u64,
            data: &mut [u8],
            oob: &mut [u8],
        ) -> Result<$crate::ReadOutcome, $crate::MtdError> {
            self.inner.read_with_oob(addr, data, oob)
        }
    };
    (@ program_with_oob) => {
        fn program_with_oob(
            &self,
            addr: u64,
            data: &[u8],
            oob: &[u8],
        ) -> Result<(), $crate::MtdError> {
            self.inner.program_with_oob(addr, data, oob)
        }
    };
}
