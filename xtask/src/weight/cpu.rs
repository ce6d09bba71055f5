fn main() -> koel::Result<()> {
    let device = koel::Device::cpu()?;
    let map = koel::Map::<u32, u32>::build(&device, &[3, 5, 7], &[30, 50, 70])?;
    println!("{:?}", map.get(&[5, 6])?);
    Ok(())
}
